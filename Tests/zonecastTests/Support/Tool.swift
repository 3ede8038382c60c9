import ChildProcesses
import Foundation

/// A program of the system that a test uses where it is installed.
enum Tool {
    /// Its path; `nil` where it is not installed.
    static func path(_ name: String) -> String? {
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
        let usual = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"]
        return (folders + usual).map { "\($0)/\(name)" }.first { access($0, X_OK) == 0 }
    }

    static func isThere(_ name: String) -> Bool { path(name) != nil }

    /// Whether `unshare -m` gives a place to mount disks in that nobody else sees.
    static let canMount = geteuid() == 0 && isThere("unshare") && (try? run("unshare", ["-m", "true"]).status) == 0

    /// Runs it to its end; gives its status and all that it said.
    static func run(
        _ name: String,
        _ arguments: [String],
        in folder: String? = nil,
        input: Data? = nil
    ) throws -> (status: Int32, said: String) {
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
        // As with `Command`: whoever ends without reading must not end us.
        let reader = dup(standardInput.fileHandleForReading.fileDescriptor)
        defer { close(reader) }
        try process.run()
        if let input {
            // What is given fits the pipe's buffer, or is read while it is written.
            standardInput.fileHandleForWriting.write(input)
            try standardInput.fileHandleForWriting.close()
        }
        let said = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: said, as: UTF8.self))
    }
}

/// A throw-away certificate for `localhost` and 127.0.0.1 that is its own authority, made by openssl.
struct TestCertificate {
    let certificate: String
    let key: String

    /// Made in `folder`, in place of one that is there.
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
        guard made.status == 0 else { throw RelayProcess.Failure(description: "openssl: \(made.said)") }
    }

    /// One that ended in February 2020.
    static func expired(in folder: String) throws -> TestCertificate {
        let made = try TestCertificate(in: folder, days: 1)
        // Only `openssl ca` takes dates, and it wants a book to note them in.
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
            guard run.status == 0 else { throw RelayProcess.Failure(description: "openssl: \(run.said)") }
        }
        return made
    }

    var flags: [String] { ["--tls-cert", certificate, "--tls-key", key] }
}
