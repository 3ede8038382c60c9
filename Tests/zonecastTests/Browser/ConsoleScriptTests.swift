import Foundation
import TestSupport
import Testing

/// Parts of the console that can be tested without a browser.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct ConsoleScriptTests {
    private let folder = ScratchFolder()

    /// The parts of a browser that `Shell` needs while a page refreshes.
    private static let browser = """
        const output = [];
        globalThis.Node = class {};
        const element = () => Object.assign(new Node(), {
          dataset: {}, setAttribute() {}, addEventListener() {}, remove() {},
          append(...parts) { output.push(...parts.filter((part) => typeof part === "string")); },
        });
        globalThis.location = { href: "http://relay.test/console/" };
        globalThis.history = { state: null, pushState() {}, replaceState() {} };
        globalThis.addEventListener = () => {};
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
        #expect(run.status == 0, "\(run.output)")
        return run.output
    }

    @Test(.enabled(if: Tool.isInstalled("node"), "node is not installed"))
    func aPageContinuesWhenTheRelayIsBack() throws {
        let output = try run(
            """
            await look();
            fault = new Refusal({ error: "The relay does not answer.", code: "offline" }, 0);
            await look();
            fault = new Refusal({}, 502);
            await look();
            fault = undefined;
            await look();
            await look();
            console.log(count, isCleared, output.filter((text) => text !== "×").join("|"));
            """
        )
        #expect(output == "3 false The relay does not answer.|The relay answers again.\n")
    }

    @Test(.enabled(if: Tool.isInstalled("node"), "node is not installed"))
    func aPageStopsRefreshingAfterARefusal() throws {
        let output = try run(
            """
            fault = new Refusal({ error: "There is no zone Notes." }, 404);
            await look();
            console.log(count, isCleared, output.filter((text) => text !== "×").join("|"));
            """
        )
        #expect(output == "0 true There is no zone Notes.\n")
    }

    /// Labels of a chart must differ: without values, the middle of a byte scale must not read as its top.
    @Test(.enabled(if: Tool.isInstalled("node"), "node is not installed"))
    func theLabelsOfAChartDiffer() throws {
        let output = try run(
            """
            document.createElementNS = element;
            const { chart } = await import("./charts.js");
            const { bytes } = await import("./format.js");
            for (const top of [0, 4_000]) {
              output.length = 0;
              chart("On the disk", [{ at: 0 }], [["files", () => top]], (value) => (value > 0 ? bytes(value) : "0"));
              console.log(output.filter((text) => /^[0-9.]+( K?B)?$/.test(text)).join());
            }
            """,
            with: "charts.js",
            "format.js"
        )
        #expect(output == "0,1 B\n0,2.5 KB,5.0 KB\n")
    }

    @Test(
        "the text of a field can be typed back, and invalid values are refused",
        .enabled(if: Tool.isInstalled("node"), "node is not installed"),
        arguments: ["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia"]
    )
    func fieldTexts(_ zone: String) throws {
        let output = try run(
            "process.env.TZ = '\(zone)';\n" + Self.fieldTexts,
            with: "fieldtext.js",
            "format.js",
            "query.js"
        )
        #expect(output == "\n")
    }

    private static let fieldTexts = #"""
        const { asText, dateText, typed, typedSeveral } = await import("./fieldtext.js");
        const { laidOut } = await import("./format.js");
        const { queryBody } = await import("./query.js");
        const faults = [];
        const exact = (value) => JSON.stringify(value, (_, one) =>
          typeof one === "bigint" ? `${one}n` : Object.is(one, -0) ? "-0" : one);
        const check = (what, is, wanted) => {
          if (exact(is) !== exact(wanted)) faults.push(`${what}: ${exact(is)} and not ${exact(wanted)}`);
        };
        const means = (type, text, value) => {
          try { check(`${type} ${text}`, typed(type, text).value, value); } catch (error) { faults.push(`${type} ${text}: ${error.message}`); }
        };
        const refused = (type, ...texts) => {
          for (const text of texts) {
            try { faults.push(`${type} ${text} is taken for ${exact(typed(type, text))}`); } catch (error) {
              if (!/ is not | is empty|JSON array/.test(error.message)) faults.push(`${type} ${text}: ${error.message}`);
            }
          }
        };

        // Numbers.
        means("INT64", "9223372036854775807", 9223372036854775807n);
        means("INT64", "-9223372036854775808", -9223372036854775808n);
        means("INT64", "9007199254740993", 9007199254740993n);
        means("INT64", " 5 ", 5);
        refused("INT64", "9223372036854775808", "-9223372036854775809", "1e3", "0x10", "", " ", "5.0", "abc", "1,000", "Infinity", "NaN", "-", "--1", "1 2");
        means("DOUBLE", "1e21", 1e21);
        means("DOUBLE", "-0", -0);
        means("DOUBLE", ".5", 0.5);
        means("DOUBLE", "1E3", 1000);
        means("DOUBLE", "1e-320", 1e-320);
        refused("DOUBLE", "Infinity", "-Infinity", "1e999", "-1e999", "NaN", "0x10", "", "1e-400", "9007199254740993", "1,5", "1e", "0b1");

        // Dates.
        for (const number of [-5, 0, -86400000, 2026, 8.64e15]) means("TIMESTAMP", String(number), number);
        means("TIMESTAMP", "9223372036854775807", 9223372036854775807n);
        means("TIMESTAMP", "1815-12-10T00:00:00Z", Date.UTC(1815, 11, 10));
        means("TIMESTAMP", "1969-12-31T23:59:59.999Z", -1);
        means("TIMESTAMP", "2026-05-01T10:00+02:00", Date.UTC(2026, 4, 1, 8));
        means("TIMESTAMP", "2026-05-01T10:00:00-0330", Date.UTC(2026, 4, 1, 13, 30));
        means("TIMESTAMP", "0050-01-01T00:00Z", new Date("0050-01-01T00:00Z").getTime());
        means("TIMESTAMP", "-000050-01-01T00:00Z", new Date("-000050-01-01T00:00Z").getTime());
        means("TIMESTAMP", "2026-05-01 10:00:00.25", new Date(2026, 4, 1, 10, 0, 0, 250).getTime());
        means("TIMESTAMP", "1969-12-31", new Date(1969, 11, 31).getTime());
        refused("TIMESTAMP", "2026-02-31", "2025-02-29T10:00", "2026-13-01", "2026-05-01T25:00", "2026-05-01T10:60", "2026-05-01T10:00:00.1234Z", "yesterday",
          "May 1 2026", "2026-5-1", "12:00", "1.5", "2026-05-01T10:00+25:00", "-", "--5", "2026-05", "1e3", "T10:00");
        for (const at of [0, -1, -999, -62135596800000, 8.64e15, -8.64e15, 1795216898607, 1000, -5e12, 253402300800000]) {
          means("TIMESTAMP", dateText(at), at);
          means("TIMESTAMP", asText({ value: at }, "TIMESTAMP"), at);
        }

        // The text shown for a value is read back as that value.
        const shown = {
          "LIST<STRING>": [["a", "b"], ["", "a", ""], [""], [], ["a\r\nb", "c\nd"], ["[x]"], [" [x", " y "], ["x", "[y]"], ["\r"]],
          "LIST<INT64>": [[1, 9007199254740993n]], "LIST<DOUBLE>": [[1.5, -0, 1e21]], "LIST<TIMESTAMP>": [[0, -1]], "LIST<BYTES>": [["AAE=", ""]],
          "LIST<REFERENCE>": [[{ recordName: "a b NONE", action: "NONE" }, { recordName: "x", action: "VALIDATE" }]],
          "LIST<LOCATION>": [[{ latitude: 1, longitude: 2 }, { latitude: 1, longitude: 2, timestamp: 5 }]],
          "LIST<ASSET>": [[{ fileChecksum: "x", size: 1 }]],
          REFERENCE: [{ recordName: "a", action: "DELETE_SELF" }, { recordName: "a", action: "NONE", zoneID: { zoneName: "Z" } },
            { recordName: "{x", action: "NONE" }, { recordName: " a ", action: "NONE" }],
          LOCATION: [{ latitude: 1.5, longitude: -2 }, { latitude: -0, longitude: 1e-7 }, { latitude: 1, longitude: 2, altitude: 3 }],
          STRING: [" a\nb ", "", "[", "null"], DOUBLE: [-0, 0.1, 5e-324], INT64: [-9223372036854775808n],
        };
        for (const [type, all] of Object.entries(shown)) for (const value of all) means(type, asText({ value }, type), value);
        means("LIST<STRING>", "a\nb\n", ["a", "b"]);
        refused("LIST<STRING>", "a\n\nb", "\na", "[a", "[1]", "[null]");
        refused("LIST<INT64>", '["x"]', "1\nx", "[1.5]", "[9007199254740993e0]", "[9223372036854775808]");
        refused("LIST<DOUBLE>", "[1e999]", "Infinity", "[9007199254740993]");
        refused("LOCATION", ",", "91,0", "0,181", "1", "1,2,3", "a,b", '{"latitude":91,"longitude":0}', "NaN,1", "");
        refused("BYTES", "x", "AA=", "é", "AA==AA==");
        refused("REFERENCE", "", "{x");

        // Filters.
        const filters = [["EQUALS", "9007199254740993"], ["IN", "1, 9007199254740993"], ["IN", "[2]"]];
        const parts = { type: "T", filters: filters.map(([comparator, text]) => ({ field: "n", comparator, text })) };
        check("filters", queryBody({ fields: [{ name: "n", type: "INT64" }] }, parts).query.filterBy.map(({ fieldValue }) => fieldValue), [
          { value: 9007199254740993n, type: "INT64" }, { value: [1, 9007199254740993n], type: "INT64_LIST" }, { value: [2], type: "INT64_LIST" },
        ]);
        check("a list with commas", typedSeveral("STRING", '["a, b",""]').value, ["a, b", ""]);

        // JSON formatted again.
        const text = '{ "a" : [1.0,9007199254740993, -0 ,1e+20,{}, [ ], "x, {\\" }"] ,"b":{"c" :null}}';
        check("on one line", laidOut(text), '{"a":[1.0,9007199254740993,-0,1e+20,{},[],"x, {\\" }"],"b":{"c":null}}');
        const value = { a: [1, { b: [] }], c: {} };
        check("on several", laidOut(JSON.stringify(value), 2), JSON.stringify(value, null, 2));
        console.log(faults.join("\n"));
        """#
}
