import ChildProcesses
import Foundation

/// A system program that tests use if it is installed.
enum Tool {
    /// Returns the program's path, `nil` if it is not installed.
    static func path(_ name: String) -> String? {
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
        let usual = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"]
        return (folders + usual).map { "\($0)/\(name)" }.first { access($0, X_OK) == 0 }
    }

    static func isInstalled(_ name: String) -> Bool { path(name) != nil }

    /// Whether `unshare -m` works, so that a test can mount disks that only its own processes see.
    static let canMount = geteuid() == 0 && isInstalled("unshare") && (try? run("unshare", ["-m", "true"]).status) == 0

    /// Runs a program to its end; returns its status and its whole output.
    static func run(
        _ name: String,
        _ arguments: [String],
        in folder: String? = nil,
        input: Data? = nil
    ) throws -> (status: Int32, output: String) {
        guard let path = name.hasPrefix("/") ? name : path(name) else { return (127, "\(name) is not installed") }
        let process = ChildProcess()
        process.executableURL = URL(fileURLWithPath: path)
        process.arguments = arguments
        if let folder { process.currentDirectoryURL = URL(fileURLWithPath: folder) }
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        let standardInput = Pipe()
        process.standardInput = input == nil ? FileHandle.nullDevice : standardInput
        // Keep a read end open, as in `Command.run`: the program may end before it has read its input.
        let reader = dup(standardInput.fileHandleForReading.fileDescriptor)
        defer { close(reader) }
        try process.run()
        if let input {
            // The input fits the pipe's buffer, or the program reads it while it is written.
            standardInput.fileHandleForWriting.write(input)
            try standardInput.fileHandleForWriting.close()
        }
        let bytes = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: bytes, as: UTF8.self))
    }
}

/// A temporary, self-signed certificate for `localhost` and 127.0.0.1, made by openssl.
struct TestCertificate {
    let certificate: String
    let key: String

    /// Makes the certificate in `folder`, replacing an existing one.
    init(in folder: String, days: Int) throws {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        certificate = folder + "/cert.pem"
        key = folder + "/key.pem"
        let made = try Tool.run(
            "openssl",
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
                "-out", certificate, "-days", "\(days)", "-subj", "/CN=localhost", "-addext",
                "subjectAltName=DNS:localhost,IP:127.0.0.1",
            ]
        )
        guard made.status == 0 else { throw RelayProcess.Failure(description: "openssl: \(made.output)") }
    }

    /// Makes a certificate that expired in February 2020.
    static func expired(in folder: String) throws -> TestCertificate {
        let made = try TestCertificate(in: folder, days: 1)
        // Only `openssl ca` accepts dates, and it needs an index file.
        let settings = """
            [ca]
            default_ca = own
            [own]
            new_certs_dir = \(folder)
            database = \(folder)/index
            rand_serial = yes
            default_md = sha256
            policy = any
            [any]
            commonName = supplied
            """
        try Data(settings.utf8).write(to: URL(fileURLWithPath: "\(folder)/ca.cnf"))
        try Data().write(to: URL(fileURLWithPath: "\(folder)/index"))
        for arguments in [
            ["req", "-new", "-key", made.key, "-out", "\(folder)/request.pem", "-subj", "/CN=localhost"],
            [
                "ca", "-batch", "-selfsign", "-config", "\(folder)/ca.cnf", "-keyfile", made.key, "-in",
                "\(folder)/request.pem", "-out", made.certificate, "-notext", "-startdate", "200101000000Z", "-enddate",
                "200201000000Z",
            ],
        ] {
            let run = try Tool.run("openssl", arguments)
            guard run.status == 0 else { throw RelayProcess.Failure(description: "openssl: \(run.output)") }
        }
        return made
    }

    var flags: [String] { ["--tls-cert", certificate, "--tls-key", key] }
}
