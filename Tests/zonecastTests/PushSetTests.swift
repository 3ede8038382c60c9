import Crypto
import Foundation
import TestSupport
import Testing

/// `zonecast push SERVICE set`: what it writes a relay starts with, and what a person wrote stays.
@Suite(.ownThread) struct PushSetTests {
    private let folder = ScratchFolder()
    private var file: String { folder.path + "/zonecast.yaml" }

    private func push(_ arguments: String...) throws -> Command {
        try Command.run(["push"] + arguments + ["--config", file])
    }

    private func text() throws -> String { try String(contentsOfFile: file, encoding: .utf8) }

    @Test func writesWhatHolds() throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let key = folder.path + "/key.p8"
        try Data(P256.Signing.PrivateKey().pemRepresentation.utf8).write(to: URL(fileURLWithPath: key))
        let own = """
            # mine
            listen: 127.0.0.1:8080   # here
            push:
              contact: mailto:old@example.org
              apns-topics:
                - org.example.old
                - org.example.older
            log.level: debug
            """
        try Data(own.utf8).write(to: URL(fileURLWithPath: file))
        chmod(file, 0o640)
        let set = try push(
            "apns",
            "set",
            "--key-file",
            key,
            "--key-id",
            "ABCDEFGHIJ",
            "--team-id",
            "0123456789",
            "--topics",
            "org.example.notes,org.example.more"
        )
        #expect(set.status == 0, "\(set.complaint)")
        #expect(try push("webpush", "set", "--contact", "mailto:new@example.org").status == 0)
        let now = try text()
        #expect(now.hasPrefix("# mine\nlisten: 127.0.0.1:8080   # here\npush:\n  contact: mailto:new@example.org\n"))
        #expect(now.contains("log.level: debug\n") && !now.contains("org.example.old"))
        let facts = try FileManager.default.attributesOfItem(atPath: file)
        #expect((facts[.posixPermissions] as? Int) == 0o640)

        let made = try Command.run(["container", "create", "iCloud.org.example.notes", "--data", folder.path])
        #expect(made.status == 0)
        let shown = try Command.run(["push", "apns", "show", "--config", file, "--data", folder.path]).output
        #expect(shown.contains("for org.example.notes, org.example.more") && shown.contains("mailto:new@example.org"))
        #expect(try push("apns", "set", "--off").status == 0)
        #expect(try !text().contains("apns"))
    }

    @Test func theFolderIsTheOneThatTheFileNames() throws {
        let data = folder.path + "/d 1"
        #expect(try Command.run(["container", "create", "iCloud.org.example.notes", "--data", data]).status == 0)
        try Data("data: \(data)\n".utf8).write(to: URL(fileURLWithPath: file))
        for command in [["push", "show"], ["alerts", "show"]] {
            let shown = try Command.run(command + ["--config", file])
            #expect(shown.status == 0, "\(shown.complaint)")
        }
        let other = try Command.run(["push", "show", "--config", file, "--data", folder.path + "/none"])
        #expect(other.status == 1 && other.complaint.contains("/none"))
    }

    @Test func whatCannotBeChangesNothing() throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        try Data("listen: 127.0.0.1:8080\n".utf8).write(to: URL(fileURLWithPath: file))
        let refused = try push(
            "apns",
            "set",
            "--key-file",
            "none.p8",
            "--key-id",
            "ABCDEFGHIJ",
            "--team-id",
            "0123456789",
            "--topics",
            "a.b"
        )
        #expect(refused.status == 2 && refused.complaint.contains("none.p8"), "\(refused.complaint)")
        #expect(try push("webpush", "set", "--contact", "me").status == 2)
        #expect(try push("webpush", "set").status == 2)
        #expect(try text() == "listen: 127.0.0.1:8080\n")
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["zonecast.yaml"])
    }
}
