import Foundation
import TestSupport
import Testing

/// Backups that are not what one expects of them.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct StrangeBackupTests {
    private let folder = ScratchFolder()

    private func backup(_ arguments: String...) throws -> Command {
        try Command.run(["backup"] + arguments + ["--data", folder.path])
    }

    /// Nobody is given an older one, or told that there is none, for one that cannot be read.
    @Test func aBackupWithADamagedManifestIsNamed() throws {
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
            #expect(run.status == 1 && run.complaint.hasPrefix(told), "\(run.complaint)")
        }
        let doctor = try Command.run(["doctor", "--quick", "--data", folder.path]).output
        #expect(doctor.contains("the newest is unusable: \(reason)"), "\(doctor)")
        // What a clock that was ahead has named is not the newest.
        let ahead = (made[1] as NSString).deletingLastPathComponent + "/2999-01-01T000000Z.zonecastbak"
        try FileManager.default.copyItem(atPath: made[1], toPath: ahead)
        // An older one that is gone is told by the list alone, and by what it lacks.
        #expect(try backup("create").status == 0)
        try FileManager.default.removeItem(atPath: manifest)
        #expect(try backup("list").output.contains("\(manifest) cannot be used: No such file or directory."))
        #expect(try backup("verify", "latest").status == 0)
    }
}
