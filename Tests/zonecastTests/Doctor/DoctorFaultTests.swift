import Foundation
import GRDB
import RelayCore
import RelayServer
import RelaySystem
import TestSupport
import Testing

@testable import zonecast

/// Provokes each fault and checks what `zonecast doctor` prints, as text and as JSON, and its exit code.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct DoctorFaultTests {
    private typealias Diagnosis = DoctorTests.Diagnosis
    private let folder = ScratchFolder()

    /// Runs the doctor with and without --json, compares the outputs and returns one finding.
    private func finding(
        _ check: String,
        is grade: String,
        _ arguments: [String],
        environment: [String: String] = [:]
    ) throws -> Diagnosis.Check {
        // Without a relay, the doctor tries to listen: at any port, so that other programs do not interfere.
        let environment = environment.merging(["ZONECAST_LISTEN": "127.0.0.1:0"]) { own, _ in own }
        let jsonRun = try Command.run(
            ["doctor", "--json", "--timeout", "120"] + arguments,
            environment: environment
        )
        let diagnosis = try jsonRun.json(Diagnosis.self)
        let found = try #require(diagnosis[check], "\(diagnosis.checks)")
        #expect(found.grade == grade, "\(found)")
        #expect(jsonRun.status == (diagnosis.problems == 0 ? 0 : 1))
        #expect(diagnosis.problems == diagnosis.checks.count { $0.grade == "problem" })

        let textRun = try Command.run(["doctor", "--timeout", "120"] + arguments, environment: environment)
        #expect(textRun.status == jsonRun.status)
        let mark = ["good": "ok     ", "advice": "advice ", "problem": "problem"][grade] ?? ""
        let line = textRun.output.split(separator: "\n").first { $0.hasPrefix("\(mark) \(check)") }
        #expect(line != nil, "\(textRun.output)")
        #expect(found.next.map { textRun.output.contains("→ \($0)\n") } ?? true, "\(textRun.output)")
        if textRun.status == 1 {
            #expect(textRun.errors.contains("failed; see above."), "\(textRun.errors)")
        }
        // With --quiet, only findings other than "good" are printed.
        let quiet = try Command.run(["doctor", "--quiet", "--timeout", "120"] + arguments, environment: environment)
        let lines = quiet.output.split(separator: "\n")
        #expect(quiet.status == jsonRun.status && !lines.contains { $0.hasPrefix("ok ") }, "\(quiet.output)")
        #expect(lines.contains { $0.hasPrefix("\(mark) \(check)") } == (grade != "good"), "\(quiet.output)")
        return found
    }

    /// A write on such a connection completes after the handshake, that is never.
    @Test func aServerThatNeverFinishesTheHandshakeIsReported() async throws {
        let port = try ListeningPort()
        port.serve { peer in
            var byte: UInt8 = 0
            while read(peer, &byte, 1) > 0 {}
        }
        var address = try #require(ProbeAddress("https://127.0.0.1:\(port.number)"))
        // Connecting may take long on a busy machine.
        address.timeout = 120
        var connected = try await Probe.connect(to: address)
        connected.address.timeout = 1
        let probe = connected
        let fault = await #expect(throws: ProbeFault.self) { try await probe.send("GET", "/healthz") }
        #expect(fault.map { "\($0)" } == "did not send an answer to GET /healthz within 1 s")
        probe.close()
    }

    @Test func aStepThatNeverEndsHasADeadline() async throws {
        let limit = ProbeFault.timedOut("anything", 0)
        let fault = await #expect(throws: ProbeFault.self) {
            try await Deadline.run(for: 0, orThrow: limit) {
                // Nothing ends this, not even cancellation.
                await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
            }
        }
        #expect(fault.map { "\($0)" } == "did not send anything within 0 s")
        #expect(try await Deadline.run(for: 60, orThrow: limit) { 7 } == 7)
    }

    private func makeContainer() throws {
        let made = try Command.run(["container", "create", "iCloud.a.b", "--data", folder.path])
        try #require(made.status == 0, "\(made.errors)")
    }

    // MARK: The folder

    @Test(arguments: [
        (ENOSPC, "No space left on device", "free disk space"), (EACCES, "Permission denied", "find the owner"),
        (EROFS, "Read-only file system", "the system makes a failing disk read-only"),
        (EIO, "Input/output error", "the disk fails: see dmesg"),
    ])
    func aFailedWriteIsReportedWithAdvice(fault: Int32, words: String, next: String) throws {
        try makeContainer()
        var disk = DiskCalls.system
        disk.write = { _, _ in
            errno = fault
            return -1
        }
        let found = FolderChecks(folder: folder.path, isThorough: false, disk: disk).storage()
        #expect(found.grade == .problem)
        #expect(found.found == "\(folder.path) cannot be written: \(words)")
        #expect(found.next?.hasPrefix(next) == true, "\(found)")
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: folder.path).allSatisfy { !$0.hasPrefix("doctor-") }
        )
    }

    @Test func aShortWriteIsReportedAsAFullDisk() throws {
        try makeContainer()
        var disk = DiskCalls.system
        disk.write = { _, bytes in bytes.count / 2 }
        let found = FolderChecks(folder: folder.path, isThorough: false, disk: disk).storage()
        #expect(found.found.hasSuffix("cannot be written: No space left on device"))
    }

    /// Runs as another user, which only root can do.
    @Test(.enabled(if: geteuid() == 0 && Tool.isInstalled("setpriv"), "only root can change its user"))
    func aFolderWithoutAccessIsReported() throws {
        try makeContainer()
        let otherUser = try Tool.run(
            "setpriv",
            ["--reuid", "65534", "--clear-groups", Command.program.path, "doctor", "--data", folder.path]
        )
        #expect(otherUser.status == 1)
        let words = "You have no access to \(folder.path). Run this as root: sudo zonecast …"
        #expect(otherUser.output.contains(words), "\(otherUser.output)")
        #expect(otherUser.output.contains("→ sudo zonecast doctor --data \(folder.path)"))
    }

    /// A copy or a careless command can leave a file in place of a folder, or a folder in place of a file.
    @Test(arguments: ["relay.lock", "containers", "containers/iCloud.a.b/development.sqlite"])
    func aFileInPlaceOfAFolderAndTheReverseAreReported(_ name: String) throws {
        try makeContainer()
        let path = "\(folder.path)/\(name)"
        try? FileManager.default.removeItem(atPath: path)
        if name == "containers" {
            try Data("x".utf8).write(to: URL(fileURLWithPath: path))
        } else {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        }
        let found = try finding("storage", is: "problem", ["--data", folder.path])
        #expect(found.found.hasPrefix("\(path) is a "), "\(found)")
        guard !name.hasSuffix(".sqlite") else { return }
        let serve = try Command.run(["serve", "--data", folder.path, "--listen", "127.0.0.1:0"])
        #expect(serve.status == 1 && serve.errors.contains("\(path) is a "), "\(serve.errors)")
    }

    @Test func aDamagedStoreIsReported() throws {
        let relay = try RelayProcess(folder: folder.path)
        try Path.makeZones(["Notes"], on: relay)
        #expect(relay.stop().status == 0)
        #expect(try finding("storage", is: "good", ["--data", folder.path]).found.contains("writable"))
        let store = "\(folder.path)/containers/\(Path.container)/development.sqlite"
        var content = try #require(FileManager.default.contents(atPath: store))
        // In the middle of the second page, which is in use.
        for place in 4096 + 2000..<4096 + 2200 { content[place] ^= 0xFF }
        try content.write(to: URL(fileURLWithPath: store))
        let found = try finding("storage", is: "problem", ["--data", folder.path])
        #expect(found.found.contains("containers/\(Path.container)/development.sqlite"), "\(found)")
        #expect(found.next == "zonecast backup restore latest --data \(folder.path)")
    }

    @Test func damagedAccountsAreReported() throws {
        try makeContainer()
        for end in ["", "-wal", "-shm"] {
            try? FileManager.default.removeItem(atPath: "\(folder.path)/relay.sqlite\(end)")
        }
        try Data("no database at all, but some text in its place".utf8)
            .write(to: URL(fileURLWithPath: "\(folder.path)/relay.sqlite"))
        let found = try finding("storage", is: "problem", ["--data", folder.path])
        #expect(found.found.contains("relay.sqlite") || found.found.contains(folder.path), "\(found)")
        #expect(found.next == "zonecast backup restore latest --data \(folder.path)", "\(found)")
    }

    // MARK: The address

    @Test func anAddressInUseIsReported() throws {
        try makeContainer()
        let other = try FixedResponseServer("HTTP/1.1 200 OK\r\n\r\n")
        let address = "127.0.0.1:\(other.port)"
        let found = try finding(
            "listening",
            is: "problem",
            ["--data", folder.path],
            environment: ["ZONECAST_LISTEN": address]
        )
        #expect(found.found.contains("no relay is running on \(folder.path)"))
        #expect(found.found.contains("\(address) is in use by another program"), "\(found)")
    }

    @Test func anUnreachableAddressIsReported() throws {
        let found = try finding("public address", is: "problem", ["--url", "http://127.0.0.1:1"])
        #expect(found.found.hasPrefix("http://127.0.0.1:1 cannot be reached: "), "\(found)")
        #expect(found.next == "check the DNS name, the firewall, and that the proxy is running")
        let name = try finding("public address", is: "problem", ["--url", "http://no-such-name.invalid"])
        #expect(name.found.hasPrefix("http://no-such-name.invalid cannot be reached: "), "\(name)")
    }

    @Test func aProxyThatDoesNotForwardRequestsIsReported() throws {
        let proxy = try FixedResponseServer("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
        let url = "http://127.0.0.1:\(proxy.port)"
        let found = try finding("public address", is: "problem", ["--url", url])
        #expect(found.found == "\(url) answers 502 to GET /healthz")
        #expect(found.next?.hasPrefix("the proxy does not forward requests to the relay") == true)
    }

    @Test func aProxyWithoutUpgradeIsReported() throws {
        let proxy = try FixedResponseServer("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nDate: \(HTTPDate.now)\r\n\r\nup\n")
        let url = "http://127.0.0.1:\(proxy.port)"
        let found = try finding("WebSocket", is: "problem", ["--url", url])
        #expect(found.found.hasPrefix("the upgrade returned 200 instead of 101: "))
        #expect(found.found.hasSuffix("does not forward Upgrade. Until this is fixed, clients poll every 60 s"))
        #expect(found.next == "for sample proxy configurations: zonecast init --domain NAME")
        _ = try finding("clock", is: "good", ["--url", url])
    }

    @Test func aWrongClockIsReported() throws {
        let proxy = try FixedResponseServer(
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\nup\n"
        )
        let found = try finding("clock", is: "problem", ["--url", "http://127.0.0.1:\(proxy.port)"])
        #expect(found.found.hasSuffix(" s from the Date of the response"))
        #expect(found.next?.hasPrefix("turn on time synchronisation, ") == true)
        #expect(found.next?.hasSuffix("timedatectl set-ntp true") == true)
        let silent = try FixedResponseServer("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nup\n")
        let none = try finding("clock", is: "advice", ["--url", "http://127.0.0.1:\(silent.port)"])
        #expect(none.found.hasSuffix("sends no Date, so the clock cannot be compared"))
    }

    // MARK: TLS

    @Test(.enabled(if: Tool.isInstalled("openssl"), "openssl is not installed"))
    func anExpiredCertificateIsReported() throws {
        let certificate = try TestCertificate.expired(in: folder.path + "/tls")
        let relay = try RelayProcess(folder: folder.path, ["--dev"] + certificate.flags)
        let url = "https://localhost:\(relay.port)"
        let found = try finding(
            "public address",
            is: "problem",
            ["--url", url, "--authorities", certificate.certificate]
        )
        #expect(found.found.hasPrefix("\(url) has a certificate that expired "), "\(found)")
        #expect(found.found.hasSuffix(" days ago"))
        #expect(found.next?.hasPrefix("renew it; ") == true)

        // The doctor of the folder reads the certificate file.
        let settings = ["ZONECAST_TLS_CERT": certificate.certificate, "ZONECAST_TLS_KEY": certificate.key]
        let own = try finding("certificate", is: "problem", ["--data", folder.path], environment: settings)
        #expect(own.found.hasPrefix("\(certificate.certificate) certificate expired "), "\(own)")

        // The relay was started with flags, so the configuration names no file: the doctor checks the served one.
        let shown = try finding("certificate", is: "problem", ["--data", folder.path])
        #expect(shown.found.hasPrefix("https://127.0.0.1:\(relay.port), certificate expired "), "\(shown)")
        withExtendedLifetime(relay) {}
    }

    @Test(.enabled(if: Tool.isInstalled("openssl"), "openssl is not installed"))
    func missingAndMismatchedTLSFilesAreReported() throws {
        try makeContainer()
        let (one, other) = (
            try TestCertificate(in: folder.path + "/one", days: 30),
            try TestCertificate(in: folder.path + "/two", days: 30)
        )
        func certificate(_ file: String, _ key: String, is grade: String) throws -> Diagnosis.Check {
            let settings = ["ZONECAST_TLS_CERT": file, "ZONECAST_TLS_KEY": key]
            return try finding("certificate", is: grade, ["--data", folder.path], environment: settings)
        }
        #expect(try certificate(one.certificate, one.key, is: "good").found.hasSuffix("certificate 29 days"))
        let none = try certificate(folder.path + "/none", one.key, is: "problem")
        #expect(none.found == "\(folder.path)/none is not a readable PEM certificate file (tls-cert).")
        #expect(none.next == "check tls-cert and tls-key in the configuration")
        let mixed = try certificate(one.certificate, other.key, is: "problem")
        #expect(mixed.found.contains("is not the key of the first certificate"))
    }

    @Test(arguments: [(-3.0, "problem"), (3.0, "problem"), (14.0, "advice"), (60.0, "good")])
    func certificatesAreGradedByTheirRemainingDays(days: Double, grade: String) {
        #expect(RelayChecks.certificate("certificate", of: "x", seconds: days * 86_400).grade.rawValue == grade)
    }
}

/// The current time in the format of the `Date` field.
enum HTTPDate {
    static var now: String {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "GMT")
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        return formatter.string(from: Date())
    }
}

/// Unexpected files, owners and paths in a data folder.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct UnexpectedFileTests {
    private let folder = ScratchFolder()

    private func makeStore() throws {
        let relay = try RelayProcess(folder: folder.path)
        try Path.makeZones(["Notes"], on: relay)
        try #require(relay.stop().status == 0)
    }

    private func storage() throws -> DoctorTests.Diagnosis.Check {
        let run = try Command.run(
            ["doctor", "--json", "--timeout", "120", "--data", folder.path],
            environment: ["ZONECAST_LISTEN": "127.0.0.1:0"]
        )
        return try #require(try run.json(DoctorTests.Diagnosis.self)["storage"])
    }

    @Test func filesOfOtherProgramsBesideTheContainersAreIgnored() throws {
        try makeStore()
        let containers = "\(folder.path)/containers"
        let copy = ScratchFolder()
        for name in [".DS_Store", "README"] {
            try Data("not the relay's".utf8).write(to: URL(fileURLWithPath: "\(containers)/\(name)"))
        }
        let found = "\(containers)/lost+found"
        try FileManager.default.createDirectory(atPath: found, withIntermediateDirectories: false)
        try Data().write(to: URL(fileURLWithPath: "\(found)/old.sqlite"))
        for command in [
            ["backup", "create"], ["backup", "verify", "latest"], ["storage", "compact", "--dry-run"],
            ["storage", "copy", "--to", "\(copy.path)"],
        ] {
            let run = try Command.run(command + ["--data", folder.path])
            #expect(run.status == 0, "\(command): \(run.errors)")
        }
        #expect(try storage().grade == "good")
    }

    /// A relay must not start with new accounts on existing records.
    @Test func missingAccountsAreReportedBesideFilesOfOtherPrograms() throws {
        try makeStore()
        try Data("not the relay's".utf8).write(to: URL(fileURLWithPath: "\(folder.path)/containers/README"))
        for end in ["", "-wal", "-shm"] {
            try? FileManager.default.removeItem(atPath: "\(folder.path)/relay.sqlite\(end)")
        }
        let serve = try Command.run(["serve", "--data", folder.path, "--listen", "127.0.0.1:0"])
        #expect(serve.status == 1, "\(serve.errors)")
        #expect(try storage().found.hasPrefix("\(folder.path)/relay.sqlite is missing or empty"))
    }

    /// A wrong folder is not backed up, and another program's file stays unchanged.
    @Test(arguments: ["letter", "relay"]) func aDatabaseOfAnotherProgramIsRefusedAndKept(table: String) throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let path = "\(folder.path)/relay.sqlite"
        let queue = try DatabaseQueue(path: path)
        try queue.write { try $0.execute(sql: "CREATE TABLE \(table) (a); INSERT INTO \(table) VALUES (1)") }
        try queue.close()
        let before = FileManager.default.contents(atPath: path)
        let found = try storage()
        #expect(found.found == "\(path) is not a relay's file: another program created it", "\(found)")
        #expect(found.next?.hasPrefix("name the relay's folder with --data; ") == true, "\(found)")
        for command in [
            ["backup", "create"], ["storage", "copy", "--to", "\(folder.path).copy"], ["user", "list"],
            ["serve", "--listen", "127.0.0.1:0"],
        ] {
            let run = try Command.run(command + ["--data", folder.path])
            let words = "is not a relay's file: another program created it"
            #expect(run.status == 1 && run.errors.contains(words), "\(run)")
        }
        #expect(FileManager.default.contents(atPath: path) == before)
    }

    @Test(.enabled(if: geteuid() == 0 && Tool.isInstalled("chown"), "only root can give files away"))
    func aFileOfRootInTheFolderOfAnotherUserIsReported() throws {
        try makeStore()
        let store = "\(folder.path)/containers/\(Path.container)/development.sqlite"
        for path in [store, "\(folder.path)/relay.sqlite"] {
            try #require(try Tool.run("chown", ["-R", "65534:65534", folder.path]).status == 0)
            #expect(try storage().grade == "good")
            try #require(try Tool.run("chown", ["root:root", path]).status == 0)
            let found = try storage()
            #expect(found.grade == "problem")
            #expect(found.found.hasPrefix("\(path) belongs to root, so a relay that runs as "), "\(found)")
            let next = try #require(found.next)
            #expect(next.hasPrefix("sudo chown -R ") && next.hasSuffix(": \(folder.path)"), "\(next)")
        }
    }

    /// An unreadable container is reported, not left out of a backup.
    @Test(.enabled(if: geteuid() == 0 && Tool.isInstalled("chown"), "only root can give files away"))
    func aContainerOfRootInTheFolderOfAnotherUserIsReported() throws {
        try makeStore()
        let place = "\(folder.path)/containers/\(Path.container)"
        try #require(try Tool.run("chown", ["-R", "65534:65534", folder.path]).status == 0)
        try #require(try Tool.run("chown", ["root:root", place]).status == 0)
        #expect(try storage().found.hasPrefix("\(place) belongs to root"))
        for command in [["backup", "create"], ["storage", "compact"]] {
            let run = try Command.run(command + ["--data", folder.path])
            #expect(run.status == 1 && run.errors == "zonecast: \(place) cannot be used: Permission denied.\n")
        }
    }

    /// Root might start the relay by hand to see why its service does not start.
    @Test(.enabled(if: geteuid() == 0 && Tool.isInstalled("chown"), "only root can give files away"))
    func rootDoesNotServeTheFolderOfAnotherUser() throws {
        #expect(try Command.run(["container", "create", "iCloud.a.b", "--data", folder.path]).status == 0)
        try #require(try Tool.run("chown", ["-R", "65534:65534", folder.path]).status == 0)
        let serve = try Command.run(["serve", "--data", folder.path, "--listen", "127.0.0.1:0"])
        #expect(serve.status == 4, "\(serve.errors)")
        let way = "zonecast serve --data \(folder.path)\n"
        #expect(serve.errors.contains("Start the relay as that user: sudo -u ") && serve.errors.hasSuffix(way))
        #expect(try Tool.run("find", [folder.path, "!", "-uid", "65534"]).output == "")
        // A folder that root has served before is served again: better a relay than none.
        try Data().write(to: URL(fileURLWithPath: "\(folder.path)/relay.lock"))
        #expect(try RelayProcess(folder: folder.path).stop().status == 0)
    }

    @Test func theReasonForAFailedSignInIsReported() {
        let full = DirectoryError.unavailable("relay.sqlite: the disk is full. Free space on it.")
        #expect(
            DoctorCommand.signInFailed(full, in: "/srv/relay").found
                == "cannot sign in in /srv/relay: relay.sqlite: the disk is full. Free space on it."
        )
    }

    /// Some of Foundation's path functions crash on some of these paths.
    @Test(arguments: ["r", ".", "./r", "r/", "../r"])
    func relativePathsOfTheDataFolderAreAccepted(name: String) throws {
        let (place, program) = ("\(folder.path)/inner", Command.program.path)
        try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
        for command in [["container", "create", Path.container], ["backup", "create"], ["storage", "show"]] {
            let run = try Tool.run(program, command + ["--data", name], in: place)
            #expect(run.status == 0, "\(command): \(run.output)")
        }
    }

    /// The store's list names containers that are missing or unreadable.
    @Test func unreadableStoresAreListedWithTheReason() throws {
        struct Info: Decodable {
            struct Failure: Decodable { var container: String, environment: String, reason: String }
            struct Row: Decodable { var container: String }
            var stores: [Row], failures: [Failure]
        }
        try makeStore()
        func zonecast(_ arguments: String...) throws -> Command {
            try Command.run(arguments + ["--data", folder.path])
        }
        #expect(try zonecast("storage", "show", "--json").json(Info.self).failures.isEmpty)
        let place = "\(folder.path)/containers/\(Path.container)"
        for isLost in [false, true] {
            if isLost {
                try FileManager.default.removeItem(atPath: place)
            } else {
                // Only root can change owners. The command then runs as the folder's owner, who cannot read the container.
                guard geteuid() == 0, try Tool.run("chown", ["-R", "65534:65534", folder.path]).status == 0,
                    try Tool.run("chown", ["root:root", place]).status == 0
                else { continue }
            }
            let run = try zonecast("storage", "show", "--json")
            let info = try run.json(Info.self)
            #expect(run.status == 1 && info.stores.isEmpty, "\(run.output)")
            let failure = try #require(info.failures.first)
            #expect(failure.container == Path.container && failure.environment == "development")
            let reason =
                isLost ? "development.sqlite in the data folder \(folder.path) is damaged" : "Permission denied."
            #expect(failure.reason.contains(reason) && run.errors.contains(failure.reason), "\(run.errors)")
            #expect(try zonecast("storage", "show").output.contains("\(Path.container)  development  unknown"))
        }
    }
}
