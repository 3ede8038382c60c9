import Crypto
import Foundation
import TestSupport
import Testing

/// `zonecast push SERVICE set` writes settings that a relay starts with, and keeps the rest of the file.
@Suite(.ownThread) struct PushSetTests {
    private let folder = ScratchFolder()
    private var file: String { folder.path + "/zonecast.yaml" }

    private func push(_ arguments: String...) throws -> Command {
        try Command.run(["push"] + arguments + ["--config", file])
    }

    private func text() throws -> String { try String(contentsOfFile: file, encoding: .utf8) }

    @Test func setWritesSettingsAndKeepsOtherLines() throws {
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
            "set",
            "apns",
            "--key-file",
            key,
            "--key-id",
            "ABCDEFGHIJ",
            "--team-id",
            "0123456789",
            "--topics",
            "org.example.notes,org.example.more"
        )
        #expect(set.status == 0, "\(set.errors)")
        #expect(try push("set", "webpush", "--contact", "mailto:new@example.org").status == 0)
        let now = try text()
        #expect(now.hasPrefix("# mine\nlisten: 127.0.0.1:8080   # here\npush:\n  contact: mailto:new@example.org\n"))
        #expect(now.contains("log.level: debug\n") && !now.contains("org.example.old"))
        let facts = try FileManager.default.attributesOfItem(atPath: file)
        #expect((facts[.posixPermissions] as? Int) == 0o640)

        let made = try Command.run(["container", "create", "iCloud.org.example.notes", "--data", folder.path])
        #expect(made.status == 0)
        let shown = try Command.run(["push", "show", "--config", file, "--data", folder.path]).output
        #expect(shown.contains("for org.example.notes, org.example.more") && shown.contains("mailto:new@example.org"))
        #expect(try push("set", "apns", "--off").status == 0)
        #expect(try !text().contains("apns"))
    }

    @Test("values are written in the form that services present, and quoted where YAML requires it")
    func normalizedValues() throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        try Data("push:\n  contact: mailto:old@example.org  # who\n  hosts: ntfy.sh\n".utf8).write(
            to: URL(fileURLWithPath: file)
        )
        #expect(try push("set", "webpush", "--contact", "MAILTO:ops@B\u{FC}cher.example").status == 0)
        let set = try push("set", "unifiedpush", "--hosts", "*.lan,*.Push.B\u{FC}cher.example")
        #expect(set.status == 0, "\(set.errors)")
        let now = try text()
        #expect(now.contains("contact: mailto:ops@xn--bcher-kva.example  # who\n"), "\(now)")
        #expect(try Command.run(["config", "check", file]).status == 0)
    }

    @Test func commandsUseTheDataFolderOfTheConfiguration() throws {
        let data = folder.path + "/d 1"
        #expect(try Command.run(["container", "create", "iCloud.org.example.notes", "--data", data]).status == 0)
        try Data("data: \(data)\n".utf8).write(to: URL(fileURLWithPath: file))
        for command in [["push", "show"], ["alert", "list"]] {
            let shown = try Command.run(command + ["--config", file])
            #expect(shown.status == 0, "\(shown.errors)")
        }
        let other = try Command.run(["push", "show", "--config", file, "--data", folder.path + "/none"])
        #expect(other.status == 1 && other.errors.contains("/none"))
    }

    @Test func anInvalidSettingChangesNothing() throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        try Data("listen: 127.0.0.1:8080\n".utf8).write(to: URL(fileURLWithPath: file))
        let refused = try push(
            "set",
            "apns",
            "--key-file",
            "none.p8",
            "--key-id",
            "ABCDEFGHIJ",
            "--team-id",
            "0123456789",
            "--topics",
            "a.b"
        )
        #expect(refused.status == 2 && refused.errors.contains("none.p8"), "\(refused.errors)")
        #expect(try push("set", "webpush", "--contact", "me").status == 2)
        for contact in [
            "mailto:ops@localhost", "mailto:<ops@example.org>", "mailto: ops@example.org", "https://localhost",
        ] {
            #expect(try push("set", "webpush", "--contact", contact).status == 2, "\(contact)")
        }
        #expect(try push("set", "unifiedpush", "--hosts", "https://push.example").status == 2)
        #expect(try push("set", "webpush").status == 2)
        #expect(try text() == "listen: 127.0.0.1:8080\n")
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["zonecast.yaml"])
    }

    // MARK: Links and mounts

    private func write(_ text: String, to path: String) throws {
        try FileManager.default.createDirectory(
            atPath: (path as NSString).deletingLastPathComponent,
            withIntermediateDirectories: true
        )
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
    }

    @Test("a configuration behind symbolic links is changed at its target, and the links stay")
    func symbolicLinks() throws {
        let real = folder.path + "/real/relay.yaml"
        try write("# mine\npush.contact: mailto:old@example.org\n", to: real)
        try FileManager.default.createSymbolicLink(atPath: folder.path + "/middle.yaml", withDestinationPath: real)
        // A link relative to its own folder, as configuration managers make them.
        try FileManager.default.createSymbolicLink(atPath: file, withDestinationPath: "middle.yaml")
        #expect(try push("set", "webpush", "--contact", "mailto:new@example.org").status == 0)
        #expect(try String(contentsOfFile: real, encoding: .utf8) == "# mine\npush.contact: mailto:new@example.org\n")
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: file) == "middle.yaml")
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: folder.path + "/middle.yaml") == real)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path + "/real") == ["relay.yaml"])
        // A refused change leaves the file as it is.
        #expect(try push("set", "webpush", "--contact", "me").status == 2)
        #expect(try text() == "# mine\npush.contact: mailto:new@example.org\n")
        // The target of the link does not exist yet.
        try FileManager.default.removeItem(atPath: real)
        #expect(try push("set", "webpush", "--contact", "mailto:new@example.org").status == 0)
        #expect(try String(contentsOfFile: real, encoding: .utf8) == "push.contact: mailto:new@example.org\n")
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: file) == "middle.yaml")
    }

    @Test("init adds missing settings behind a symbolic link, and the link stays")
    func symbolicLinksOfInit() throws {
        let (real, etc) = (folder.path + "/real/relay.yaml", folder.path + "/etc")
        try write("# mine\nlisten: 127.0.0.1:8080\n", to: real)
        try FileManager.default.createDirectory(atPath: etc, withIntermediateDirectories: true)
        try FileManager.default.createSymbolicLink(atPath: etc + "/zonecast.yaml", withDestinationPath: real)
        let run = try Command.run([
            "init", "--yes", "--domain", "a.example", "--files", etc, "--data", folder.path + "/data",
        ])
        #expect(run.status == 0, "\(run.errors)")
        let now = try String(contentsOfFile: real, encoding: .utf8)
        #expect(now.hasPrefix("# mine\nlisten: 127.0.0.1:8080\n") && now.contains("public-url: https://a.example\n"))
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: etc + "/zonecast.yaml") == real)
    }

    @Test(
        "a configuration that is mounted as a single file is changed in place",
        .enabled(if: Tool.canMount, "only root may mount")
    )
    func bindMounts() throws {
        let real = folder.path + "/outside/relay.yaml"
        try write("push.contact: mailto:old@example.org # who\n", to: real)
        try write("", to: file)
        let script = """
            mount --bind '\(real)' '\(file)' && '\(Command.program.path)' push set webpush --contact mailto:new@example.org \
            --config '\(file)' && cat '\(file)'
            """
        let run = try Tool.run("unshare", ["-m", "sh", "-c", script])
        #expect(run.status == 0, "\(run.output)")
        #expect(try String(contentsOfFile: real, encoding: .utf8) == "push.contact: mailto:new@example.org # who\n")
        #expect(run.output.hasSuffix("push.contact: mailto:new@example.org # who\n"))
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() == ["outside", "zonecast.yaml"]
        )
    }

    @Test(
        "a file in a read-only folder is changed in place",
        .enabled(if: Tool.canMount, "only root may mount")
    )
    func readOnlyFolders() throws {
        let (outside, etc) = (folder.path + "/outside/relay.yaml", folder.path + "/etc")
        try write("push.ntfy: true\n", to: outside)
        try write("", to: etc + "/zonecast.yaml")
        let script = """
            mount --bind '\(etc)' '\(etc)' && mount --bind '\(outside)' '\(etc)/zonecast.yaml' && mount -o remount,bind,ro '\(etc)' \
            && '\(Command.program.path)' push set webpush --contact mailto:new@example.org --config '\(etc)/zonecast.yaml'
            """
        let run = try Tool.run("unshare", ["-m", "sh", "-c", script])
        #expect(run.status == 0, "\(run.output)")
        let now = try String(contentsOfFile: outside, encoding: .utf8)
        #expect(now == "push.ntfy: true\npush.contact: mailto:new@example.org\n")
    }

    // MARK: Comments and quotes

    @Test("comments stay, beside values, in lists and above removed settings")
    func comments() throws {
        try write(
            """
            # top
            push:   # all of it
              # whom
              contact: 'mailto:old@example.org'   # it's ours
              hosts:
                # theirs
                - ntfy.sh   # public
                - "*.old.lan"
                # own

                - *.x.invalid # never
            log.level: debug # for now

            """
            .replacing("- *.x.invalid", with: "- '*.x.example'"),
            to: file
        )
        #expect(try push("set", "webpush", "--contact", "mailto:new@example.org").status == 0)
        let set = try push("set", "unifiedpush", "--hosts", "ntfy.sh,*.lan,push.example")
        #expect(set.status == 0, "\(set.errors)")
        let now = try text()
        for kept in [
            "# top\n", "push:   # all of it\n", "  # whom\n", "contact: mailto:new@example.org   # it's ours\n",
            "# theirs\n",
            "- ntfy.sh   # public\n", "# own\n", "# never", "log.level: debug # for now\n",
        ] {
            #expect(now.contains(kept), "\(kept) in \(now)")
        }
        #expect(!now.contains("old.lan") && !now.contains("x.example"))
        let shown = try Command.run(["config", "show", "--config", file, "--json"])
        #expect(shown.output.contains("ntfy.sh,*.lan,push.example"), "\(shown.output)\(shown.errors)")
        #expect(try push("set", "unifiedpush", "--off").status == 0)
        let left = try text()
        for kept in ["# top\n", "# all of it", "# whom\n", "# it's ours", "# theirs\n", "# own\n", "debug # for now\n"]
        {
            #expect(left.contains(kept), "\(kept) in \(left)")
        }
        #expect(try Command.run(["config", "check", file]).status == 0)
        #expect(try push("set", "unifiedpush", "--hosts", "*.lan").status == 0)
        #expect(try Command.run(["config", "check", file]).status == 0)
    }

    @Test(
        "values are quoted where YAML requires it",
        arguments: ["*.lan", "*.lan,*.home.arpa", "[2001:db8::1]", "1.2.3.4"]
    )
    func quotes(hosts: String) throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let set = try push("set", "unifiedpush", "--hosts", hosts)
        #expect(set.status == 0, "\(set.errors)")
        #expect(try Command.run(["config", "check", file]).status == 0)
        let shown = try Command.run(["config", "show", "--config", file, "--json"])
        #expect(shown.output.contains("\"value\":\"\(hosts)\""), "\(shown.output)")
    }
}
