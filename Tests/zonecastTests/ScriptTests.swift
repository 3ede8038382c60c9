import Foundation
import TestSupport
import Testing

/// The type annotations of `/zonecast.js` and the other scripts hold, checked with `tsc`.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct ScriptTests {
    private let folder = ScratchFolder()

    /// Code of a page that uses the module, to which a test adds an error that only types can find.
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

    private static let options = [
        "--noEmit", "--allowJs", "--checkJs", "--strict", "false", "--target", "es2022", "--module", "es2022", "--lib",
        "es2022,dom,dom.iterable", "--moduleResolution", "node",
    ]

    private func write(_ contents: String, to path: String) throws {
        let file = URL(fileURLWithPath: folder.path + "/" + path)
        try FileManager.default.createDirectory(
            at: file.deletingLastPathComponent(),
            withIntermediateDirectories: true
        )
        try Data(contents.utf8).write(to: file)
    }

    /// Returns what `tsc` reports about the files of the folder; "" if it reports nothing.
    private func diagnostics(about files: [String]) throws -> String {
        let run = try Tool.run("tsc", Self.options + files, in: folder.path)
        return run.status == 0 ? "" : run.output
    }

    private func diagnostics(_ use: String, _ module: Data) throws -> String {
        try write(String(decoding: module, as: UTF8.self), to: "zonecast.js")
        try write(use, to: "use.js")
        return try diagnostics(about: ["use.js"])
    }

    @Test(.enabled(if: Tool.isInstalled("tsc"), "tsc is not installed: sudo apt install node-typescript"))
    func theTypesOfTheClientModuleHold() throws {
        let relay = try RelayProcess(folder: folder.path + "/relay")
        let module = try relay.connect().send("GET", "/zonecast.js").body
        #expect(relay.stop().status == 0)
        #expect(try diagnostics(Self.use, module) == "")
        let wrong = Self.use.replacing("publicPermission: \"READ_ONLY\"", with: "publicPermission: \"SOME\"")
        #expect(try diagnostics(wrong, module).contains("SOME"))
    }

    /// Checks the scripts in the layout in which the relay serves them.
    @Test(
        "tsc accepts every script of the console, the demo and zonecast.js",
        .enabled(if: Tool.isInstalled("tsc"), "tsc is not installed: sudo apt install node-typescript")
    )
    func allScriptsHaveTypes() throws {
        let web = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("Sources/RelayConsole/Web").path
        func text(_ path: String) throws -> String { try String(contentsOfFile: "\(web)/\(path)", encoding: .utf8) }
        let json = try text("client/json.js")
        let own = try text("client/zonecast.js").split(separator: "\n", omittingEmptySubsequences: false)
            .filter { !$0.hasSuffix(#"from "./json.js";"#) }
        var scripts = [
            "zonecast.js": own.joined(separator: "\n") + "\n" + json,
            "console/json.js": json,
        ]
        for page in ["console", "demo"] {
            let names = try FileManager.default.contentsOfDirectory(atPath: "\(web)/\(page)")
            for name in names where name.hasSuffix(".js") {
                scripts["\(page)/\(name)"] = try text("\(page)/\(name)")
            }
        }
        for (path, contents) in scripts { try write(contents, to: path) }
        #expect(scripts.count > 3)
        #expect(try diagnostics(about: scripts.keys.sorted()) == "")
    }
}
