import Foundation
import TestSupport
import Testing

/// The console in a real browser.
@Suite(
    .ownThread,
    .serialized,
    .timeLimit(.minutes(15)),
    .enabled(if: Chromium.program != nil, "chromium is not installed: sudo apt install chromium")
)
struct ConsoleTests {
    static let container = "iCloud.org.example.notes"
    static let pages = [
        "overview", "records", "assets", "zones", "changes", "devices", "shares", "schema", "indexes", "roles",
        "promote",
        "users", "tokens", "keys", "operators", "telemetry", "logs", "quotas", "push", "backups",
        "configuration",
        "explorer", "audit",
    ]

    /// A relay with some records, and its console link.
    final class ConsoleFixture {
        let folder = ScratchFolder()
        let relay: RelayProcess
        let link: String

        /// The browser opens the console under the host name `host`.
        init(host: String = "127.0.0.1", environment: [String: String] = [:]) throws {
            let log = folder.path + "-log"
            relay = try RelayProcess(folder: folder.path, environment: environment, log: log)
            defer { unlink(log) }
            let deadline = ContinuousClock.now + .seconds(120)
            var found: String?
            while found == nil, ContinuousClock.now < deadline {
                let text = FileManager.default.contents(atPath: log).map { String(decoding: $0, as: UTF8.self) } ?? ""
                found = text.firstMatch(of: /console (http[^ ]+#setup=[\w-]+)\s/).map { String($0.1) }
                if found == nil { usleep(20_000) }
            }
            let printed = try #require(found, "waited 120 s for the console's link")
            link = printed.replacing("127.0.0.1", with: host)
        }

        func post(_ operation: String, _ body: String, user: String = "alice") throws {
            let path = "/database/1/\(ConsoleTests.container)/development/\(operation)?ckWebAuthToken=dev-\(user)"
            #expect(try relay.connect().send("POST", path, body: body).status == 200)
        }

        func saveRecords() throws {
            try post("private/zones/modify", Self.zone)
            try post("private/records/modify", Self.note)
            for (number, title) in ["Hello", "From the public", "=1+1", "<img src=x onerror=alert(1)>"].enumerated() {
                try post(
                    "public/records/modify",
                    """
                    {"operations":[{"operationType":"create","record":{"recordName":"post-\(number)","recordType":"Post",
                    "fields":{"title":{"value":"\(title)"},"stars":{"value":\(number)},
                    "tags":{"value":["a","b"]},"reply":{"value":{"recordName":"post-0","action":"NONE"}}}}}]}
                    """
                )
            }
        }

        private static let zone =
            #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"Notes"}}}]}"#
        private static let note = """
            {"zoneID":{"zoneName":"Notes"},"operations":[{"operationType":"create","record":{"recordName":"secret-name",
            "recordType":"Note","fields":{"title":{"value":"secret words"}}}}]}
            """

        /// Opens the link and creates the first operator.
        func signUp(_ browser: Chromium, width: Int = 1280, isDark: Bool = false) throws -> Chromium.Page {
            let page = try browser.open(link, width: width, isDark: isDark)
            try page.wait(for: "document.querySelectorAll('.door input').length === 3")
            #expect(try !page.text("location.href").contains("setup"))
            try page.text("document.querySelector('.door input').focus()")
            for word in ["ada@example.org", "correct horse", "correct horse"] {
                try page.type(word)
                try page.press("Tab")
            }
            try page.press("Enter")
            return page
        }
    }

    func isReady(_ name: String) -> String { "document.body.dataset.ready === '\(name)'" }

    func go(_ page: Chromium.Page, _ name: String, _ query: String = "", production: Bool = false) throws {
        let environment = production ? "production" : "development"
        let address = "#/\(Self.container)/\(environment)/\(name)\(query)"
        // Go through another address, so that the page loads even if it is the current one.
        try page.text("history.replaceState(null, '', '#')")
        try page.text("(document.body.dataset.ready = '', location.hash = '\(address)')")
        try page.wait(for: isReady(name))
    }

    /// Presses two keys with event times a tenth of a second apart, however long they take.
    private func goWithKeys(_ page: Chromium.Page, _ key: String, to name: String) throws {
        try page.wait(for: "!document.querySelector('dialog[open]')")
        try page.wait(for: "!document.activeElement?.matches('input, textarea, select')")
        let now = Date().timeIntervalSince1970
        try page.press("g", at: now)
        try page.press(key, at: now + 0.1)
        try page.wait(for: isReady(name))
    }

    @Test func everyPageLoadsWithoutErrors() throws {
        let fixture = try ConsoleFixture()
        try fixture.saveRecords()
        // The overview would report a slow machine or disk, which is not a fault of a page.
        let limits = ["slow-requests": "1e9", "slow-commits": "1e9", "slow-notices": "1e9", "disk": "0"]
        for (rule, limit) in limits {
            let told = try Command.run(["alert", "edit", rule, "--limit", limit, "--data", fixture.folder.path])
            #expect(told.status == 0, "\(told.errors)")
        }
        let browser = try Chromium()
        let page = try fixture.signUp(browser)
        try page.wait(for: isReady("overview"))
        for name in Self.pages {
            try go(page, name)
            #expect(try page.text("document.querySelector('main .trouble')?.innerText ?? ''") == "", "\(name)")
            #expect(try page.text("document.querySelector('nav [aria-current]')?.dataset.page") == name)
            #expect(try !page.text("document.body.innerText").contains("secret"), "\(name)")
        }
        try go(page, "overview", production: true)
        #expect(try page.text("document.body.className") == "production")
        #expect(page.faults.isEmpty, "\(page.faults)")
        let own = "http://127.0.0.1:\(fixture.relay.port)/"
        #expect(page.requests.allSatisfy { $0.hasPrefix(own) || $0.hasPrefix("data:") || $0.hasPrefix("blob:") })
    }

    @Test func anUnknownAddressShowsNotHere() throws {
        let fixture = try ConsoleFixture()
        try fixture.saveRecords()
        #expect(try Command.run(["container", "create", "_a", "--data", fixture.folder.path]).status == 0)
        let page = try fixture.signUp(try Chromium())
        try page.wait(for: isReady("overview"))
        #expect(
            try page.text("document.getElementById('container').value") == Self.container,
            "containers of apps come first"
        )
        let here = "#/\(Self.container)"
        let addresses = [
            "#/iCloud.none/development/zones", "\(here)/staging/zones", "\(here)/development/none", "#/%E0%A4%A",
        ]
        for address in addresses {
            try page.text("(document.body.dataset.ready = '', location.hash = '\(address)')")
            try page.wait(for: isReady("none"))
            #expect(try page.text("document.querySelector('main h1').innerText") == "Not found", "\(address)")
        }
        try go(page, "zones")
    }

    @Test func aRefusedQueryLinksToTheSchemaPage() throws {
        let fixture = try ConsoleFixture()
        let schema = fixture.folder.path + "-schema.ckdb"
        defer { unlink(schema) }
        let text =
            "DEFINE SCHEMA\nRECORD TYPE Post (title STRING, GRANT READ TO \"_world\", GRANT CREATE TO \"_icloud\");\n"
        try text.write(toFile: schema, atomically: true, encoding: .utf8)
        let own = ["--container", Self.container, "--data", fixture.folder.path]
        #expect(try Command.run(["container", "create", Self.container, "--data", fixture.folder.path]).status == 0)
        let imported = try Command.run(["schema", "import", "--file", schema] + own)
        #expect(imported.status == 0, "\(imported.errors)")
        let page = try fixture.signUp(try Chromium())
        try page.wait(for: isReady("overview"))
        try go(page, "records", "?type=Post")
        try page.wait(for: "document.getElementById('unmarked') !== null")
        #expect(try page.text("document.querySelector('#unmarked a').hash").hasSuffix("/schema?type=Post"))
    }

    @Test("the role page shows what a grant includes, and does not let it be removed separately")
    func includedRights() throws {
        let fixture = try ConsoleFixture()
        let schema = fixture.folder.path + "-schema.ckdb"
        defer { unlink(schema) }
        let text = """
            DEFINE SCHEMA
            RECORD TYPE Post (title STRING, GRANT READ TO "_world", GRANT CREATE TO "_icloud");
            RECORD TYPE Page (title STRING, GRANT WRITE TO "_icloud");

            """
        try text.write(toFile: schema, atomically: true, encoding: .utf8)
        let own = ["--container", Self.container, "--data", fixture.folder.path]
        #expect(try Command.run(["container", "create", Self.container, "--data", fixture.folder.path]).status == 0)
        #expect(try Command.run(["schema", "import", "--file", schema] + own).status == 0)
        let page = try fixture.signUp(try Chromium())
        try page.wait(for: isReady("overview"))
        try go(page, "roles")
        func box(_ label: String) throws -> String {
            try page.text(
                "(() => { const box = document.querySelector('[aria-label=\"\(label)\"]'); return [box.checked, box.disabled].join(); })()"
            )
        }
        #expect(try box("Creator may read Post") == "true,true")
        #expect(try box("Creator may write Post") == "true,true")
        #expect(try box("Creator may create Post") == "false,false")
        #expect(try box("Authenticated may read Post") == "false,false")
        #expect(try box("Authenticated may write Post") == "false,false")
        #expect(try box("World may read Post") == "true,false")
        #expect(try box("Authenticated may read Page") == "true,true")
        #expect(try box("Authenticated may write Page") == "true,false")
        #expect(try box("Creator may write Page") == "false,false")
        #expect(try page.text("document.querySelector('main').innerText").contains("Write includes read."))
        #expect(page.faults.isEmpty, "\(page.faults)")
    }

    @Test func pagesFitANarrowDarkScreen() throws {
        let fixture = try ConsoleFixture()
        try fixture.saveRecords()
        let page = try fixture.signUp(try Chromium(), width: 390, isDark: true)
        try page.wait(for: isReady("overview"))
        for name in Self.pages {
            try go(page, name)
            let root = "document.documentElement"
            let isWide = try page.text("\(root).scrollWidth > \(root).clientWidth")
            #expect(isWide == "false", "\(name) is too wide")
            let isCut = "[...document.querySelectorAll('.scroll')].some((one) => one.scrollWidth > one.clientWidth)"
            #expect(try page.text(isCut) == "false", "a table of \(name) is cut")
            try page.saveScreenshot("console-narrow-\(name)")
        }
        #expect(page.faults.isEmpty, "\(page.faults)")
    }

    @Test func aRecordIsCreatedFoundChangedAndDeleted() throws {
        let fixture = try ConsoleFixture()
        try fixture.saveRecords()
        let page = try fixture.signUp(try Chromium())
        try page.wait(for: isReady("overview"))
        try go(page, "records", "?type=Post&sort=stars")
        #expect(try page.text("document.querySelectorAll('tbody tr').length") == "4")
        // Markup in values is shown as text.
        #expect(try page.text("document.querySelectorAll('main td img').length") == "0")
        #expect(try page.text("document.querySelector('main tbody').innerText").contains("<img src=x"))
        try go(page, "records", "?type=Post&filter=stars+GREATER_THAN+1")
        #expect(try page.text("document.querySelectorAll('tbody tr').length") == "2")
        // A record is created, found by its name, changed and deleted.
        try page.text("document.getElementById('new-record').click()")
        try page.wait(for: "document.querySelector('dialog[open] form') !== null")
        try page.text("document.querySelector('dialog input').focus()")
        try page.type("made-here")
        try page.press("Enter")
        try page.wait(for: "document.querySelector('dialog') === null")
        try go(page, "records", "?type=Post&record=made-here")
        try page.wait(for: "document.querySelector('dialog[open] h2')?.innerText === 'made-here'")
        try page.saveScreenshot("console-record")
        try page.text(
            """
            (() => { const field = [...document.querySelectorAll('dialog .field')].find((one) => one.innerText.startsWith('title'));
            field.querySelector('textarea').value = 'Changed here'; })()
            """
        )
        try page.text("document.querySelector('dialog button[type=submit]').click()")
        try page.wait(for: "document.querySelector('dialog') === null")
        try page.wait(for: "document.querySelector('main').innerText.includes('Changed here')")
        try page.text("[...document.querySelectorAll('td button')].find((one) => one.title === 'made-here').click()")
        try page.wait(for: "document.querySelector('dialog[open] .danger') !== null")
        try page.text("document.querySelector('dialog .danger').click()")
        try page.wait(for: "document.querySelectorAll('dialog[open]').length === 2")
        try page.text("[...document.querySelectorAll('dialog')].at(-1).querySelector('.danger').click()")
        try page.wait(for: "document.querySelector('dialog') === null")
        try page.wait(for: "!document.querySelector('main tbody').innerText.includes('made-here')")
        #expect(page.faults.isEmpty, "\(page.faults)")
    }

    /// A record written by another program, with values that are easily changed by editing.
    private static let exactFields = #"""
        {"title":{"value":"a","type":"STRING"},"largest":{"value":9223372036854775807,"type":"INT64"},\#
        "ids":{"value":[9007199254740993,1],"type":"INT64_LIST"},"empty":{"value":"","type":"STRING"},\#
        "lines":{"value":"a\r\nb","type":"STRING"},"items":{"value":["","a\nb",""],"type":"STRING_LIST"},\#
        "price":{"value":2.0,"type":"DOUBLE"},"before":{"value":-5,"type":"TIMESTAMP"},\#
        "at":{"value":1795216898607,"type":"TIMESTAMP","exactSeconds":816909698.6071234}}
        """#

    private func storedFields(_ fixture: ConsoleFixture) throws -> String {
        let path = "/database/1/\(Self.container)/development/public/records/lookup?ckWebAuthToken=dev-alice"
        let answer = try fixture.relay.connect().send("POST", path, body: #"{"records":[{"recordName":"exact"}]}"#)
        let text = String(decoding: answer.body, as: UTF8.self)
        return text.firstMatch(of: /"fields":(\{.*\}),"pluginFields"/).map { String($0.1) } ?? text
    }

    /// Fills in inputs of the dialog, saves, and returns the dialog's error, "" if it closed.
    private func edit(_ page: Chromium.Page, _ inputs: [String: String]) throws -> String {
        try page.wait(for: "document.querySelector('dialog[open] form') !== null")
        for (name, text) in inputs {
            let written = String(decoding: try JSONEncoder().encode(text), as: UTF8.self)
            try page.text(
                """
                (() => { const field = [...document.querySelectorAll('dialog .field')].find((one) => one.innerText.startsWith('\(name) '));
                const input = field.querySelector('textarea, input'); input.value = \(written); input.dispatchEvent(new Event('input')); })()
                """
            )
        }
        let trouble = "document.querySelector('dialog .trouble')"
        try page.text("(\(trouble).textContent = '', document.querySelector('dialog button[type=submit]').click())")
        try page.wait(for: "document.querySelector('dialog') === null || \(trouble).textContent !== ''")
        let output = try page.text("\(trouble)?.textContent ?? ''")
        try page.text("document.querySelectorAll('dialog').forEach((one) => one.close())")
        try page.wait(for: "document.querySelector('dialog') === null")
        return output
    }

    @Test("changing a record keeps its other values, and exact numbers are shown, sent and exported")
    func exactValues() throws {
        let fixture = try ConsoleFixture()
        let fields = Self.exactFields
        try fixture.post(
            "public/records/modify",
            #"{"operations":[{"operationType":"create","record":{"recordName":"exact","recordType":"Exact","fields":\#(fields)}}]}"#
        )
        #expect(try storedFields(fixture) == fields)
        let page = try fixture.signUp(try Chromium())
        try page.wait(for: isReady("overview"))
        try go(page, "records", "?type=Exact")
        let row = try page.text("document.querySelector('main tbody').innerText")
        #expect(row.contains("9223372036854775807") && row.contains("9007199254740993"), "\(row)")

        // Changing one field keeps the others.
        try go(page, "records", "?type=Exact&record=exact")
        #expect(try edit(page, ["title": "b"]) == "")
        var expected = fields.replacing(#""title":{"value":"a""#, with: #""title":{"value":"b""#)
        #expect(try storedFields(fixture) == expected)

        // An invalid value is refused, and nothing is saved.
        let refusals = [
            ["price": "Infinity"], ["price": "1e999"], ["largest": "9223372036854775808"], ["largest": "1e3"],
            ["before": "yesterday"],
            ["items": "a\n\nb"], ["title": "c", "price": "NaN"],
        ]
        for inputs in refusals {
            try go(page, "records", "?type=Exact&record=exact")
            #expect(try edit(page, inputs).contains("Nothing was saved."), "\(inputs)")
            #expect(try storedFields(fixture) == expected, "\(inputs)")
        }

        // Typed values are stored exactly, and the text of a field can be typed back.
        try go(page, "records", "?type=Exact&record=exact")
        let typed = [
            "largest": "-9223372036854775808", "before": "1815-12-10T00:00:00Z", "price": "1e21", "lines": "a\nc",
            "items": #"["", "x"]"#, "ids": "9007199254740993\n2",
        ]
        #expect(try edit(page, typed) == "")
        let changes = [
            (#""largest":{"value":9223372036854775807"#, #""largest":{"value":-9223372036854775808"#),
            (#""before":{"value":-5"#, #""before":{"value":-4861728000000"#),
            (#""price":{"value":2.0"#, #""price":{"value":1e+21"#), (#""a\r\nb""#, #""a\r\nc""#),
            (#"["","a\nb",""]"#, #"["","x"]"#), ("[9007199254740993,1]", "[9007199254740993,2]"),
        ]
        for (before, after) in changes { expected = expected.replacing(before, with: after) }
        #expect(try storedFields(fixture) == expected)

        // A filter by a number that no double can hold.
        for (number, count) in [("-9223372036854775808", "1"), ("-9223372036854775807", "0")] {
            try go(page, "records", "?type=Exact&filter=largest+EQUALS+\(number)")
            #expect(try page.text("document.querySelectorAll('main tbody tr').length") == count)
        }

        // Exports.
        let downloads = ScratchFolder()
        try page.keepDownloads(in: downloads.path)
        try go(page, "records", "?type=Exact")
        for kind in ["CSV", "JSON"] {
            try page.text(
                "[...document.querySelectorAll('main button')].find((one) => one.innerText === 'Export…').click()"
            )
            try page.text(
                "[...document.querySelectorAll('dialog button')].find((one) => one.innerText === '\(kind)').click()"
            )
            let file = "\(downloads.path)/Exact.\(kind.lowercased())"
            let deadline = ContinuousClock.now + .seconds(120)
            while !FileManager.default.fileExists(atPath: file), ContinuousClock.now < deadline { usleep(50_000) }
            let text = String(decoding: FileManager.default.contents(atPath: file) ?? Data(), as: UTF8.self)
            #expect(text.contains("-9223372036854775808") && text.contains("9007199254740993"), "\(kind): \(text)")
            try page.wait(for: "document.querySelector('dialog') === null")
        }

        // The API page sends, shows and exports exact numbers.
        try go(page, "explorer", "?operation=records/query&as=operator")
        let body =
            #"{"query": {"recordType": "Exact", "filterBy": [{"fieldName": "largest", "comparator": "LESS_THAN", "fieldValue": {"value": -9223372036854775807}}]}}"#
        try page.text(
            """
            (() => { const area = document.querySelector('main textarea'); area.value = '\(body)';
            area.dispatchEvent(new Event('input')); document.getElementById('send').click(); })()
            """
        )
        try page.wait(for: "document.querySelector('main .badge.good')?.innerText === '200'")
        let shown = try page.text("document.querySelector('main').innerText")
        #expect(
            shown.contains(#""value": -9223372036854775808"#) && shown.contains(#""value":-9223372036854775807}"#),
            "\(shown)"
        )
        #expect(page.faults.isEmpty, "\(page.faults)")
    }

    @Test func theSchemaIsPromotedWithTheKeyboard() throws {
        let fixture = try ConsoleFixture()
        try fixture.saveRecords()
        let page = try fixture.signUp(try Chromium())
        try page.wait(for: isReady("overview"))
        try goWithKeys(page, "p", to: "promote")
        #expect(try page.text("document.querySelector('main tbody').innerText").contains("record type 'Post'"))
        try page.text("document.getElementById('promote').click()")
        try page.wait(for: "document.querySelector('dialog.production input') !== null")
        try page.saveScreenshot("console-promote")
        #expect(try page.text("document.querySelector('dialog .danger').disabled") == "true")
        try page.text("document.querySelector('dialog input').focus()")
        try page.type(Self.container)
        try page.press("Enter")
        try page.wait(for: "document.querySelector('main').innerText.includes('No differences.')")
        try goWithKeys(page, "a", to: "audit")
        #expect(try page.text("document.querySelector('main tbody').innerText").contains("schema.promote"))
        try page.press("?")
        try page.wait(for: "document.querySelector('dialog[open] .keys') !== null")
        try page.press("Escape")
        #expect(page.faults.isEmpty, "\(page.faults)")
    }

    @Test func backClosesADialogAndThenLeavesThePage() throws {
        let fixture = try ConsoleFixture()
        try fixture.saveRecords()
        let page = try fixture.signUp(try Chromium())
        try page.wait(for: isReady("overview"))
        for name in ["zones", "records"] {
            try page.text("document.querySelector('nav [data-page=\(name)]').click()")
            try page.wait(for: isReady(name))
        }
        func openDialog() throws {
            try page.text("document.getElementById('new-record').click()")
            try page.wait(for: "document.querySelector('dialog[open]') !== null")
        }
        try openDialog()
        try page.text("history.back()")
        try page.wait(for: "document.querySelector('dialog') === null")
        #expect(try page.text("document.body.dataset.ready") == "records")
        // A dialog that is closed in another way leaves nothing that Back would have to pass.
        try openDialog()
        try page.text("document.querySelector('dialog header button').click()")
        try page.wait(for: "document.querySelector('dialog') === null")
        try page.text("history.back()")
        try page.wait(for: isReady("zones"))
        #expect(page.faults.isEmpty, "\(page.faults)")
    }

    @Test func aSetUpLinkWorksInAnOpenTab() throws {
        let fixture = try ConsoleFixture()
        let page = try fixture.signUp(try Chromium())
        try page.wait(for: "document.body.dataset.ready === 'none'")
        let made = try Command.run(["user", "operator", "create", "--data", fixture.folder.path])
        let code = try #require(made.output.firstMatch(of: /#setup=[\w-]+/)).0
        try page.text("(location.hash = '\(code)')")
        try page.wait(for: "document.querySelectorAll('.door input').length === 3")
        #expect(page.faults.isEmpty, "\(page.faults)")
    }

    @Test func aChartShowsTheValuesAtThePointer() throws {
        let fixture = try ConsoleFixture()
        let page = try fixture.signUp(try Chromium())
        try page.wait(for: "document.body.dataset.ready === 'none'")
        try page.text(
            """
            import('./charts.js').then(({ chart }) => document.querySelector('main').append(chart('Test', [0, 1, 2, 3].map((at) => ({ at })),
              [['one', ({ at }) => (at === 1 ? null : at)]], (value) => `${value} long units`)))
            """
        )
        // The first point has no neighbour with a value, so no line shows it.
        #expect(try page.text("document.querySelectorAll('.chart > .dot').length") == "1")
        try page.text(
            """
            (() => { const chart = document.querySelector('.chart'); const box = chart.getBoundingClientRect();
            chart.dispatchEvent(new PointerEvent('pointermove', { clientX: box.right - 5, clientY: box.top + 20 })); })()
            """
        )
        #expect(try page.text("document.querySelector('.legend').innerText").contains("one 3 long units"))
        let isCut = "[...document.querySelectorAll('.chart .label')].some((one) => one.getBBox().x < 0)"
        #expect(try page.text(isCut) == "false")
        #expect(page.faults.isEmpty, "\(page.faults)")
    }

    @Test func theChangesPageUpdatesItself() throws {
        let fixture = try ConsoleFixture()
        try fixture.saveRecords()
        let page = try fixture.signUp(try Chromium())
        try page.wait(for: isReady("overview"))
        try go(page, "changes")
        try page.text("document.querySelector('main tbody a').click()")
        try page.wait(for: "document.querySelectorAll('main tbody tr').length === 1")
        try fixture.post(
            "private/records/modify",
            """
            {"zoneID":{"zoneName":"Notes"},"operations":[{"operationType":"forceDelete","record":{"recordName":"secret-name"}}]}
            """
        )
        try page.wait(for: "document.querySelector('main tbody .badge.bad') !== null")
        try page.text("document.querySelector('main form button[type=submit]').click()")
        try page.wait(for: "document.querySelector('main').innerText.includes('this device is up to date')")
        try page.saveScreenshot("console-feed")
        #expect(page.faults.isEmpty, "\(page.faults)")
    }

    @Test func theExplorerCallsAsAUserOrAsTheOperator() throws {
        let fixture = try ConsoleFixture()
        try fixture.saveRecords()
        let page = try fixture.signUp(try Chromium())
        try page.wait(for: isReady("overview"))
        try go(page, "explorer", "?operation=records/lookup")
        try page.text("document.querySelectorAll('main .tokens input')[1].focus()")
        try page.type("dev-alice")
        try page.text("document.getElementById('send').click()")
        try page.wait(for: "document.querySelector('main .badge.good')?.innerText === '200'")
        #expect(try page.text("document.querySelector('main').innerText").contains("NOT_FOUND"))
        #expect(try page.text("document.getElementById('acting').innerText").contains("You act as dev-alice"))
        let audit = try Command.run(["log", "audit", "--data", fixture.folder.path])
        #expect(audit.output.contains("explorer.act-as-user"))
        #expect(try page.text("document.querySelector('main').innerText").contains("try await database.record(for:"))
        try page.saveScreenshot("console-explorer-answer")
        // An operator has no tokens and only the public database.
        try page.text(
            """
            (() => { const who = [...document.querySelectorAll('main select')][1]; who.value = 'operator';
            who.dispatchEvent(new Event('change')); document.querySelector('main textarea').value = '{"records":[{"recordName":"post-0"}]}'; })()
            """
        )
        #expect(try page.text("document.querySelector('main .tokens').hidden") == "true")
        #expect(try page.text("document.getElementById('acting').hidden") == "true")
        try page.text("document.getElementById('send').click()")
        try page.wait(for: "document.querySelector('main').innerText.includes('\"Hello\"')")
        #expect(page.faults.isEmpty, "\(page.faults)")
    }

    @Test func quotasAreChangedOnTheQuotaPage() throws {
        let fixture = try ConsoleFixture()
        try fixture.saveRecords()
        let page = try fixture.signUp(try Chromium())
        try page.wait(for: isReady("overview"))
        try goWithKeys(page, "q", to: "quotas")
        #expect(try page.text("document.querySelector('main').innerText").contains("limits.requests-per-second"))
        try page.text("document.getElementById('change-quota').click()")
        try page.wait(for: "document.querySelectorAll('#container-quota select').length === 4")
        try page.text(
            """
            (() => { const [kind] = document.querySelectorAll('#container-quota select'); kind.value = 'own';
            kind.dispatchEvent(new Event('change')); const [size] = document.querySelectorAll('#container-quota input');
            size.value = '12'; size.focus(); })()
            """
        )
        try page.saveScreenshot("console-quota-change")
        try page.press("Enter")
        try page.wait(for: "document.querySelector('dialog') === null")
        try page.wait(for: "document.querySelector('main').innerText.includes('of 12.0 MB')")
        let shown = try Command.run(["container", "quota", Self.container, "--data", fixture.folder.path])
        #expect(
            shown.output.contains("public records   12 MB") && shown.output.contains("private          as configured")
        )
        // The quota of one user, from the same page.
        try page.text("document.querySelector('main td button').click()")
        try page.wait(for: "document.querySelector('dialog form select') !== null")
        try page.text(
            """
            (() => { const kind = document.querySelector('dialog form select'); kind.value = 'own';
            kind.dispatchEvent(new Event('change')); const size = document.querySelector('dialog form input');
            size.value = '7'; size.focus(); })()
            """
        )
        try page.press("Enter")
        try page.wait(for: "document.querySelector('main tbody').innerText.includes('7.0 MB (set for this user)')")
        let audit = try Command.run(["log", "audit", "--data", fixture.folder.path])
        #expect(audit.output.contains("container.quota") && audit.output.contains("user.quota"))
        #expect(page.faults.isEmpty, "\(page.faults)")
    }

    @Test func aBackupIsDownloaded() throws {
        let fixture = try ConsoleFixture()
        try fixture.saveRecords()
        let browser = try Chromium()
        let page = try fixture.signUp(browser)
        try page.wait(for: isReady("overview"))
        let downloads = ScratchFolder()
        try page.keepDownloads(in: downloads.path)
        try go(page, "backups")
        try page.text("document.getElementById('make-backup').click()")
        try page.wait(for: "document.querySelectorAll('main tbody tr').length === 1")
        #expect(try page.text("document.querySelector('main tbody').innerText").contains("not yet"))
        try page.text("document.querySelector('main tbody button').click()")
        try page.wait(for: "document.querySelector('main tbody').innerText.includes('good, ')")
        try page.saveScreenshot("console-backup-verified")
        try page.text("[...document.querySelectorAll('main tbody button')].at(-1).click()")
        try page.wait(for: "document.querySelector('#download-backup input') !== null")
        try page.saveScreenshot("console-backup-download")
        try page.type("correct horse")
        try page.press("Enter")
        try page.wait(for: "document.querySelector('dialog') === null")
        let name = try page.text("document.querySelector('main td.mono span').title")
        let file = "\(downloads.path)/\(name).tar"
        let deadline = ContinuousClock.now + .seconds(120)
        // The browser renames the file when the download is complete.
        while !FileManager.default.fileExists(atPath: file), ContinuousClock.now < deadline { usleep(50_000) }
        try #require(FileManager.default.fileExists(atPath: file), "waited 120 s for \(name).tar")
        let tar = try Tool.run("tar", ["-xf", file, "-C", downloads.path])
        #expect(tar.status == 0, "\(tar.output)")
        let verified = try Command.run(["backup", "verify", "\(downloads.path)/\(name)", "--data", fixture.folder.path])
        #expect(verified.status == 0, "\(verified.output)")
        let audit = try Command.run(["log", "audit", "--data", fixture.folder.path])
        #expect(audit.output.contains("backup.download"))
        #expect(page.faults.isEmpty, "\(page.faults)")
    }

    @Test func theResultOfAPushTestIsShown() throws {
        // No server listens at that port, so the test reports it and nothing leaves the machine.
        let environment = ["ZONECAST_PUSH_NTFY": "true", "ZONECAST_PUSH_HOSTS": "127.0.0.1"]
        let fixture = try ConsoleFixture(environment: environment)
        try fixture.saveRecords()
        let path = "/device/1/\(Self.container)/development/push/register?ckWebAuthToken=dev-alice"
        let registered = try fixture.relay.connect().send(
            "POST",
            path,
            body: #"{"ntfy":{"topicURL":"https://127.0.0.1:1/secret-topic"}}"#
        )
        #expect(registered.status == 200, "\(String(decoding: registered.body, as: UTF8.self))")
        let page = try fixture.signUp(try Chromium())
        try page.wait(for: isReady("overview"))
        try goWithKeys(page, "y", to: "push")
        #expect(try page.text("document.querySelectorAll('main .badge.good').length") == "1")
        try page.text("document.querySelector('main td button').click()")
        try page.wait(
            for: "document.querySelector('#push-verdict .trouble')?.innerText.includes('could not be reached') === true"
        )
        try page.saveScreenshot("console-push-test")
        #expect(try !page.text("document.body.innerText").contains("secret-topic"))
        #expect(page.faults.isEmpty, "\(page.faults)")
    }

    @Test func rateLimitedAddressesAreShownAsPseudonyms() throws {
        let fixture = try ConsoleFixture(environment: ["ZONECAST_LIMITS_FAILED_CREDENTIALS_PER_MINUTE": "1"])
        try fixture.saveRecords()
        let page = try fixture.signUp(try Chromium(), width: 390, isDark: true)
        try page.wait(for: isReady("overview"))
        let connection = try fixture.relay.connect()
        let path = "/database/1/\(Self.container)/development/private/zones/list?ckWebAuthToken=nonsense"
        var refused = 0
        let deadline = ContinuousClock.now + .seconds(120)
        // One failure per minute is allowed, so at least one of two is refused, however slow they are.
        while refused < 2, ContinuousClock.now < deadline {
            if try connection.send("POST", path, body: "{}").status == 429 { refused += 1 }
        }
        try #require(refused == 2, "waited 120 s to be told to wait")
        try go(page, "quotas")
        try page.wait(for: "document.querySelector('main .badge.warn') !== null")
        let who = try page.text("[...document.querySelectorAll('main tbody')].at(-1).innerText")
        #expect(who.contains("address") && who.contains("Invalid tokens or signatures") && !who.contains("127.0.0.1"))
        try page.saveScreenshot("console-narrow-rates")
        let root = "document.documentElement"
        #expect(try page.text("\(root).scrollWidth > \(root).clientWidth") == "false")
        #expect(page.faults.isEmpty, "\(page.faults)")
    }

    @Test func aShareIsStoppedAndAUserDeleted() throws {
        let fixture = try ConsoleFixture()
        try fixture.saveRecords()
        try fixture.post(
            "private/records/modify",
            """
            {"zoneID":{"zoneName":"Notes"},"operations":[{"operationType":"create","record":{"recordName":"cloudkit.zoneshare",
            "recordType":"cloudkit.share","publicPermission":"READ_ONLY","fields":{"cloudkit.title":{"value":"secret words"}}}}]}
            """
        )
        let page = try fixture.signUp(try Chromium())
        try page.wait(for: isReady("overview"))
        #expect(try page.text("document.querySelector('main').innerText").contains("Doctor results"))
        try goWithKeys(page, "h", to: "shares")
        #expect(try page.text("document.querySelector('main tbody').innerText").contains("anyone: read"))
        try page.saveScreenshot("console-share")
        try page.text("document.querySelector('main td .danger[aria-label^=Stop]').click()")
        try page.wait(for: "document.querySelector('dialog[open] .danger') !== null")
        try page.text("document.querySelector('dialog[open] .danger').click()")
        try page.wait(for: "document.querySelector('main').innerText.includes('No shares yet.')")
        try goWithKeys(page, "u", to: "users")
        try page.text("document.querySelector('main tbody a').click()")
        try page.wait(for: "document.getElementById('delete-user') !== null")
        try page.saveScreenshot("console-user")
        try page.text("document.getElementById('delete-user').click()")
        try page.wait(for: "document.querySelector('#delete-user-form button')?.disabled === true")
        try page.type("dev-alice")
        try page.saveScreenshot("console-user-delete")
        try page.press("Enter")
        try page.wait(for: "document.querySelector('main').innerText.includes('No users yet.')")
        let audit = try Command.run(["log", "audit", "--data", fixture.folder.path])
        #expect(audit.output.contains("share.stop") && audit.output.contains("user.delete"))
        #expect(!audit.output.contains("secret"))
        #expect(page.faults.isEmpty, "\(page.faults)")
    }

    @Test func aPageAfterTheEndOfASignInShowsTheSignInForm() throws {
        let fixture = try ConsoleFixture()
        let page = try fixture.signUp(try Chromium())
        try page.wait(for: isReady("none"))
        try page.saveScreenshot("console-first")
        #expect(
            try Command.run(["user", "operator", "delete", "ada@example.org", "--data", fixture.folder.path]).status
                == 0
        )
        try page.text("setTimeout(() => location.reload())")
        try page.wait(for: "document.querySelector('.door h1')?.innerText === 'Sign in'")
        try page.saveScreenshot("console-sign-in")
        let link = try Command.run(["user", "operator", "create", "--data", fixture.folder.path])
        #expect(link.output.contains("http://127.0.0.1:\(fixture.relay.port)/console/#setup="))
    }

    /// A signed-in operator adds a passkey and then signs in with it.
    @Test func anOperatorSignsInWithAPasskey() throws {
        let fixture = try ConsoleFixture(host: "localhost")
        let page = try fixture.signUp(try Chromium())
        try page.wait(for: isReady("none"))
        try page.addAuthenticator()
        try page.text("document.querySelector('.who').click()")
        try page.wait(for: "document.querySelector('dialog #passkeys form') !== null")
        try page.text("document.querySelector('#passkeys input[type=text]').focus()")
        try page.type("my laptop")
        try page.press("Tab")
        try page.type("correct horse")
        try page.press("Enter")
        try page.wait(for: "document.querySelector('#passkeys tbody')?.innerText.includes('my laptop') === true")
        try page.saveScreenshot("console-passkeys")
        try page.text(
            "[...document.querySelectorAll('dialog button')].find((one) => one.innerText === 'Sign out').click()"
        )
        try page.wait(for: "document.querySelector('.door h1')?.innerText === 'Sign in'")
        try page.saveScreenshot("console-sign-in-passkey")
        try page.text("document.getElementById('use-passkey').click()")
        try page.wait(for: "document.querySelector('.who')?.innerText === 'ada@example.org'")
        let audit = try Command.run(["log", "audit", "--data", fixture.folder.path])
        #expect(audit.output.contains("operator.sign-in-passkey"))
        #expect(page.faults.isEmpty, "\(page.faults)")
    }

    /// The commands that the pages show exist.
    @Test func theCommandsShownOnPagesExist() throws {
        let fixture = try ConsoleFixture()
        let page = try fixture.signUp(try Chromium())
        try page.wait(for: isReady("none"))
        let commands = try page.text(
            """
            import('./sections.js').then(({ sections }) => sections.flatMap(({ pages }) => pages)
            .map(({ command }) => command?.({ container: '\(Self.container)', environment: 'development', data: '/srv/relay',
              url: 'http://127.0.0.1:1' }) ?? '')
            .filter(Boolean).join('\\n'))
            """
        ).split(separator: "\n")
        #expect(commands.count > 14)
        for command in commands {
            let words = command.split(separator: " ").prefix { $0 != "#" }.map(String.init)
            // Reading the help checks that the words before it are a command.
            let verbs = words.prefix { !$0.hasPrefix("-") && $0.lowercased() == $0 && !$0.contains(".") }
            let help = HelpText.of(Array(verbs))
            #expect(help != nil, "\(command)")
            for option in words where option.hasPrefix("--") {
                #expect(help?.contains(option) == true, "\(command): \(option)")
            }
        }
    }
}
