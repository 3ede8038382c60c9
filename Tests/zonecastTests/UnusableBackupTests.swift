import Foundation
import TestSupport
import Testing

/// Backups that cannot be used.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct UnusableBackupTests {
    private let folder = ScratchFolder()

    private func backup(_ arguments: String...) throws -> Command {
        try Command.run(["backup"] + arguments + ["--data", folder.path])
    }

    /// `latest` must not silently fall back to an older backup when the newest cannot be read.
    @Test func aBackupWithADamagedManifestIsReported() throws {
        struct List: Decodable {
            struct Row: Decodable { var backup: String }
            var backups: [Row], unusable: [Row]
        }
        #expect(try Command.run(["container", "create", "iCloud.a.b", "--data", folder.path]).status == 0)
        let made = try (0..<2).map { _ in try backup("create", "--json").json(List.Row.self).backup }
        let manifest = "\(made[1])/manifest.json"
        try Data("{".utf8).write(to: URL(fileURLWithPath: manifest))
        let list = try backup("list", "--json").json(List.self)
        #expect(list.backups.map(\.backup) == [made[0]])
        #expect(list.unusable.map(\.backup) == [(made[1] as NSString).lastPathComponent])
        let reason = "\(manifest) cannot be used: it is damaged."
        #expect(try backup("list").output.hasSuffix("fault    \(reason)\n"))
        for verb in ["verify", "restore"] {
            let run = try backup(verb, "latest")
            let told = "zonecast: \(reason) It is the newest. Name another: zonecast backup list --data "
            #expect(run.status == 1 && run.errors.hasPrefix(told), "\(run.errors)")
        }
        let doctor = try Command.run(["doctor", "--quick", "--data", folder.path]).output
        #expect(doctor.contains("the newest is unusable: \(reason)"), "\(doctor)")
        // A backup with a date in the future, made while the clock was ahead, is not the newest.
        let ahead = (made[1] as NSString).deletingLastPathComponent + "/2999-01-01T000000Z.zonecastbak"
        try FileManager.default.copyItem(atPath: made[1], toPath: ahead)
        // An older backup without a manifest is reported by `list` only.
        #expect(try backup("create").status == 0)
        try FileManager.default.removeItem(atPath: manifest)
        #expect(try backup("list").output.contains("\(manifest) cannot be used: No such file or directory."))
        #expect(try backup("verify", "latest").status == 0)
    }
}
