import Foundation
import TestSupport
import Testing

/// `/zonecast.js` as others use it: what its comments say of types holds, by the judge that editors ask.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct ScriptTests {
    private let folder = ScratchFolder()

    /// A page's own code on top of it, with a mistake that only types can find.
    private static let use = """
        import { Container, values } from "./zonecast.js";
        const container = new Container({ container: "iCloud.org.example.notes", apiToken: "t" });
        const database = container.privateDatabase;
        export async function use() {
          const note = await database.save({ recordType: "Note", fields: { title: "Buy milk" } }, { zone: "Notes" });
          const { records } = await database.query({ recordType: "Note" }, { zone: "Notes", resultsLimit: 10 });
          await database.share("Notes", { title: "Ours", publicPermission: "READ_ONLY" });
          await database.delete(note, { zone: "Notes" });
          return records.map(values);
        }

        """

    private func complaints(_ use: String, _ module: Data) throws -> String {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        try module.write(to: URL(fileURLWithPath: folder.path + "/zonecast.js"))
        try Data(use.utf8).write(to: URL(fileURLWithPath: folder.path + "/use.js"))
        let run = try Tool.run(
            "tsc",
            [
                "--noEmit", "--allowJs", "--checkJs", "--strict", "false", "--target", "es2022", "--module", "es2022",
                "--lib",
                "es2022,dom,dom.iterable", "--moduleResolution", "node", "use.js",
            ],
            in: folder.path
        )
        return run.status == 0 ? "" : run.said
    }

    @Test(.enabled(if: Tool.isThere("tsc"), "tsc is not installed: sudo apt install node-typescript"))
    func itsTypesHold() throws {
        let relay = try RelayProcess(folder: folder.path + "/relay")
        let module = try relay.connect().send("GET", "/zonecast.js").body
        #expect(relay.stop().status == 0)
        #expect(try complaints(Self.use, module) == "")
        let wrong = Self.use.replacing("publicPermission: \"READ_ONLY\"", with: "publicPermission: \"SOME\"")
        #expect(try complaints(wrong, module).contains("SOME"))
    }
}
