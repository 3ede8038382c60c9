import Foundation
import Testing

/// Parts of the console that need no browser to be tried.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct ConsoleScriptTests {
    private let folder = ScratchFolder()

    /// As much of a browser as the frame wants while a page looks again and again.
    private static let browser = """
        const said = [];
        globalThis.Node = class {};
        const element = () => Object.assign(new Node(), {
          dataset: {}, setAttribute() {}, addEventListener() {}, remove() {},
          append(...parts) { said.push(...parts.filter((part) => typeof part === "string")); },
        });
        globalThis.location = { href: "http://relay.test/console/" };
        globalThis.document = { hidden: false, createElement: element, getElementById: element };
        globalThis.setTimeout = () => 0;
        let look, isCleared = false;
        globalThis.setInterval = (act) => { look = act; return 1; };
        globalThis.clearInterval = () => { isCleared = true; };
        const { Shell } = await import("./shell.js");
        const { Refusal } = await import("./api.js");
        const life = new AbortController();
        let fault, count = 0;
        Shell.prototype.every(1, life.signal, async () => {
          if (fault) throw fault;
          count += 1;
        });

        """

    private func run(_ script: String, with more: String...) throws -> String {
        let relay = try RelayProcess(folder: folder.path + "/relay")
        let connection = try relay.connect()
        var (open, seen): ([String], Set<String>) = (["shell.js", "api.js"] + more, [])
        while let name = open.popLast() {
            guard seen.insert(name).inserted else { continue }
            let text = String(decoding: try connection.send("GET", "/console/\(name)").body, as: UTF8.self)
            try Data(text.utf8).write(to: URL(fileURLWithPath: "\(folder.path)/\(name)"))
            open += text.matches(of: /from "\.\/([a-z]+\.js)"/).map { String($0.1) }
        }
        #expect(relay.stop().status == 0)
        try Data(#"{"type":"module"}"#.utf8).write(to: URL(fileURLWithPath: folder.path + "/package.json"))
        try Data((Self.browser + script).utf8).write(to: URL(fileURLWithPath: folder.path + "/run.js"))
        let run = try Tool.run("node", ["run.js"], in: folder.path)
        #expect(run.status == 0, "\(run.said)")
        return run.said
    }

    @Test(.enabled(if: Tool.isThere("node"), "node is not installed"))
    func aPageGoesOnWhenTheRelayIsBack() throws {
        let said = try run(
            """
            await look();
            fault = new Refusal({ error: "The relay does not answer.", code: "offline" }, 0);
            await look();
            fault = new Refusal({}, 502);
            await look();
            fault = undefined;
            await look();
            await look();
            console.log(count, isCleared, said.filter((text) => text !== "×").join("|"));
            """
        )
        #expect(said == "3 false The relay does not answer.|The relay answers again.\n")
    }

    @Test(.enabled(if: Tool.isThere("node"), "node is not installed"))
    func aPageThatIsRefusedLooksNoMore() throws {
        let said = try run(
            """
            fault = new Refusal({ error: "There is no zone Notes." }, 404);
            await look();
            console.log(count, isCleared, said.filter((text) => text !== "×").join("|"));
            """
        )
        #expect(said == "0 true There is no zone Notes.\n")
    }

    /// Half a byte is none: the middle of a chart without values would say the same as its top.
    @Test(.enabled(if: Tool.isThere("node"), "node is not installed"))
    func noMarkOfAChartSaysWhatAnotherSays() throws {
        let said = try run(
            """
            document.createElementNS = element;
            const { chart } = await import("./charts.js");
            const { bytes } = await import("./format.js");
            for (const top of [0, 4_000]) {
              said.length = 0;
              chart("On the disk", [{ at: 0 }], [["files", () => top]], (value) => (value > 0 ? bytes(value) : "0"));
              console.log(said.filter((text) => /^[0-9.]+( K?B)?$/.test(text)).join());
            }
            """,
            with: "charts.js",
            "format.js"
        )
        #expect(said == "0,1 B\n0,2.5 KB,5.0 KB\n")
    }
}
