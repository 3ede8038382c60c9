import ChildProcesses
import Foundation
import TestSupport
import Testing

/// The browser demo in a real browser.
@Suite(
    .ownThread,
    .serialized,
    .timeLimit(.minutes(15)),
    .enabled(if: Chromium.program != nil, "chromium is not installed: sudo apt install chromium")
)
struct BrowserDemoTests {
    let folder = ScratchFolder()

    private static let allPanesAreLive =
        "document.body?.dataset.ready === 'yes' && document.querySelectorAll('.pane.live').length === 3"

    /// Returns a script that tells whether a client shows a note.
    private func shows(_ pane: String, _ title: String) -> String {
        "[...document.querySelectorAll('#\(pane) .notes input[type=text]')].some((input) => input.value === '\(title)')"
    }

    @Test func allScenesOfTheTourPass() throws {
        let relay = try RelayProcess(folder: folder.path)
        let page = try Chromium().open("http://127.0.0.1:\(relay.port)/demo")
        try page.wait(for: Self.allPanesAreLive)
        try page.saveScreenshot("demo-start")
        try page.text("document.getElementById('run-tour').click()")
        try setSpeed("fast", on: page)
        try page.wait(600, for: "document.body.dataset.tour !== undefined")
        try page.saveScreenshot("demo-tour")
        let checks = try page.text("document.getElementById('tour').innerText")
        #expect(try page.text("document.body.dataset.tour") == "held", "\(checks)")
        #expect(checks.contains("0 lost · 0 duplicated"), "\(checks)")
        #expect(checks.contains("10 of 10 scenes passed"), "\(checks)")
        #expect(page.faults.isEmpty)
        let own = ["http://127.0.0.1:\(relay.port)/", "data:"]
        #expect(page.requests.count > 20)
        #expect(page.requests.allSatisfy { request in own.contains { request.hasPrefix($0) } })
    }

    private func setSpeed(_ speed: String, on page: Chromium.Page) throws {
        let select = "document.getElementById('speed')"
        try page.text("(\(select).value = '\(speed)', \(select).dispatchEvent(new Event('change')))")
    }

    @Test(arguments: [true, false]) func everythingFitsALaptopsScreen(_ isDark: Bool) throws {
        let relay = try RelayProcess(folder: folder.path)
        let address = "http://127.0.0.1:\(relay.port)/demo/"
        let page = try Chromium().open(address, width: 1280, height: 800, isDark: isDark)
        try page.wait(for: Self.allPanesAreLive)
        // The first visit begins with three notes and an invitation.
        try page.wait(for: "document.querySelectorAll('#alice-laptop .notes li').length === 3")
        try page.wait(for: "document.getElementById('message').textContent.startsWith('Type a note')")
        #expect(try page.text("document.querySelector('#alice-phone .count').textContent") == "3")
        #expect(try page.text("document.querySelectorAll('#legend li').length") == "6")
        for number in 1...12 {
            try page.text("document.querySelector('#alice-phone .add input').value = 'Line \(number)'")
            try page.text("document.querySelector('#alice-phone .add').requestSubmit()")
        }
        try page.wait(for: shows("alice-laptop", "Line 12"))
        let isInView = """
            (() => {
                const list = document.querySelector('#alice-laptop .notes').getBoundingClientRect();
                const note = document.querySelector('#alice-laptop .notes li:last-child').getBoundingClientRect();
                return note.top >= list.top - 1 && note.bottom <= list.bottom + 1;
            })()
            """
        try page.wait(for: isInView)
        #expect(try page.text("document.querySelector('#alice-laptop .count').textContent") == "15")
        try page.text("document.querySelector('#bob-tablet .switch').click()")
        try page.wait(for: "document.querySelector('#timeline .step.offline .why') !== null")
        try page.text("document.querySelector('.step.offline').dispatchEvent(new Event('click', { bubbles: true }))")
        #expect(try page.text("document.querySelector('#detail .why').textContent").contains("switched offline"))
        let root = "document.documentElement"
        #expect(try page.text("\(root).scrollHeight <= innerHeight && \(root).scrollWidth <= innerWidth") == "true")
        let footer = "document.querySelector('footer').getBoundingClientRect()"
        #expect(try page.text("\(footer).bottom <= innerHeight") == "true")
        try page.saveScreenshot("demo-1280x800-\(isDark ? "dark" : "light")")
        #expect(page.faults.isEmpty)
    }

    @Test func theTourPausesAndGoesOn() throws {
        let relay = try RelayProcess(folder: folder.path)
        let page = try Chromium().open("http://127.0.0.1:\(relay.port)/demo/", width: 1280, height: 800)
        try page.wait(for: Self.allPanesAreLive)
        try page.text("document.getElementById('run-tour').click()")
        try page.text("document.getElementById('pause').click()")
        try page.wait(for: "document.getElementById('scene').textContent.startsWith('Scene 1 of 10')")
        #expect(try page.text("document.getElementById('pause').textContent") == "Continue")
        // A paused tour plays on to the end of the scene, and then one scene for each Next.
        for scene in 1...2 {
            try page.text("document.getElementById('next').click()")
            try page.wait(for: "document.querySelectorAll('#checks .held').length === \(scene)")
        }
        let scene = try page.text("document.getElementById('scene').textContent")
        #expect(scene == "Scene 2 of 10: Offline edits survive a restart")
        #expect(try page.text("document.querySelectorAll('#checks li').length") == "2")
        try setSpeed("fast", on: page)
        try page.text("document.getElementById('pause').click()")
        try page.wait(for: "document.querySelectorAll('#checks .held').length > 2")
        #expect(try page.text("document.documentElement.scrollHeight <= innerHeight") == "true")
        #expect(page.faults.isEmpty)
    }

    @Test(arguments: ["", "?apiToken=wrong"]) func wrongCredentialsEndInASentenceAndAForm(_ query: String) throws {
        let relay = try RelayProcess(folder: folder.path, [], environment: ["ZONECAST_DEMO": "true"])
        let address = "http://127.0.0.1:\(relay.port)/demo/\(query)"
        let page = try Chromium().open(address, width: 390, height: 844, isDark: !query.isEmpty)
        try page.wait(for: "document.getElementById('entry')?.hidden === false")
        let words = try page.text("document.getElementById('entry').innerText")
        #expect(words.contains("Ask its operator for the demo's link"))
        try page.saveScreenshot("demo-entry\(query.isEmpty ? "" : "-wrong")")
        try page.text("document.querySelector('#entry [name=apiToken]').value = 'other'")
        try page.text("setTimeout(() => document.querySelector('#entry form').requestSubmit())")
        try page.wait(for: "location.search.includes('apiToken=other')")
        #expect(page.faults.isEmpty)
    }

    @Test func aFirstVisitCausesNoFailedRequests() throws {
        let relay = try RelayProcess(folder: folder.path)
        let page = try Chromium().open("http://127.0.0.1:\(relay.port)/demo/", width: 390)
        try page.wait(for: Self.allPanesAreLive)
        try page.text("document.querySelector('#bob-tablet .board form input').focus()")
        try page.type("Lost: one umbrella")
        try page.press("Enter")
        // The board is polled, so it is later than notices.
        try page.wait(
            for: "document.querySelector('#alice-phone .board').innerHTML.includes('Lost: one umbrella')"
                + " || [...document.querySelectorAll('#alice-phone .board input')].some((one) => one.value.includes('umbrella'))"
        )
        #expect(page.refusals.isEmpty, "\(page.refusals)")
        #expect(page.faults.isEmpty, "\(page.faults)")
    }

    @Test func notesAreSharedWithTheButtons() throws {
        let relay = try RelayProcess(folder: folder.path)
        let page = try Chromium().open("http://127.0.0.1:\(relay.port)/demo/", isDark: true)
        try page.wait(for: Self.allPanesAreLive)
        try page.text("document.querySelector('#alice-phone .add input').focus()")
        try page.type("From alice")
        try page.press("Enter")
        try page.wait(for: shows("alice-laptop", "From alice"))
        try page.wait(for: "!document.getElementById('share').disabled")
        try page.text("document.getElementById('share').click()")
        try page.wait(for: "document.querySelector('#bob-tablet .badge.locked') !== null")
        try page.wait(for: shows("bob-tablet", "From alice"))
        try page.text("document.querySelector('#bob-tablet .zone:nth-child(2) input[type=checkbox]').click()")
        try page.wait(for: "document.querySelector('#timeline .step.refused') !== null")
        try page.saveScreenshot("demo-refused")
        try page.wait(for: "!document.querySelector('#bob-tablet .zone:nth-child(2) input[type=checkbox]').checked")
        try page.text("document.getElementById('permission').click()")
        try page.wait(for: "document.querySelector('#bob-tablet .badge.locked') === null")
        try page.text("document.querySelector('#bob-tablet .zone:nth-child(2) input[type=checkbox]').click()")
        try page.wait(for: "document.querySelector('#alice-phone .notes li.done') !== null")
        try page.text("document.getElementById('stop').click()")
        try page.wait(for: "document.querySelectorAll('#bob-tablet .zone').length === 1")
        #expect(page.faults.isEmpty)
    }

    @Test func theDemoCanBeUsedWithTheKeyboard() throws {
        let relay = try RelayProcess(folder: folder.path)
        let page = try Chromium().open("http://127.0.0.1:\(relay.port)/demo/")
        try page.wait(for: Self.allPanesAreLive)
        for key in ["2", "a"] { try page.press(key) }
        try page.type("By keys")
        try page.press("Enter")
        try page.wait(for: shows("alice-phone", "By keys"))
        try page.text("document.activeElement.blur()")
        for key in ["1", "o"] { try page.press(key) }
        try page.wait(for: "document.querySelector('#alice-phone .switch').getAttribute('aria-checked') === 'false'")
        try page.press("o")
        try page.wait(for: Self.allPanesAreLive)
        // The tab key stops once in the timeline; the arrow keys move between its steps.
        #expect(try page.text("document.querySelectorAll('#timeline .step[tabindex=\"0\"]').length") == "1")
        try page.text("document.querySelector('#timeline .step[tabindex=\"0\"]').focus()")
        for _ in 0..<6 { try page.press("ArrowLeft") }
        #expect(try page.text("document.activeElement.classList.contains('step')") == "true")
        #expect(try page.text("document.getElementById('detail').innerText.length > 20") == "true")
        #expect(page.faults.isEmpty)
    }

    /// Each page has its own browser context, as two devices would.
    @Test func aSingleClientFitsThePhoneWidth() throws {
        let relay = try RelayProcess(folder: folder.path)
        let browser = try Chromium()
        let pages = try ["phone", "laptop"].map { device in
            try browser.open(
                "http://127.0.0.1:\(relay.port)/demo/?user=carol&device=\(device)",
                width: 390,
                height: 844
            )
        }
        for page in pages { try page.wait(for: "document.querySelectorAll('.pane.live').length === 1") }
        try pages[0].text("document.querySelector('.zone .add input').focus()")
        try pages[0].type("Across")
        try pages[0].press("Enter")
        try pages[1].wait(for: shows("carol-laptop", "Across"))
        try pages[1].saveScreenshot("demo-phone")
        for page in pages {
            #expect(try page.text("document.documentElement.scrollWidth <= innerWidth") == "true")
            #expect(page.faults.isEmpty)
        }
    }

    /// A second window of a device is refused, but reloading a page is not a second window.
    @Test func aSecondWindowOfADeviceIsRefusedButReloadsAreNot() throws {
        let relay = try RelayProcess(folder: folder.path)
        let page = try Chromium().open("http://127.0.0.1:\(relay.port)/demo/?user=dora&device=phone")
        try page.wait(for: "document.querySelectorAll('.pane.live').length === 1")
        try page.text("(window.open(location.href), true)")
        let second = try page.openedWindow()
        try second.wait(for: "document.getElementById('message').textContent.includes('another window')")
        for _ in 0..<5 {
            try page.text("(window.isOld = true, setTimeout(() => location.reload()))")
            try page.wait(
                for: "window.isOld === undefined && document.querySelectorAll('.pane.live').length === 1"
            )
        }
        #expect(page.faults.isEmpty && second.faults.isEmpty)
    }

    @Test func anAudienceJoinsWithThePIN() throws {
        let (demo, output) = (ChildProcess(), Pipe())
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        demo.executableURL = Command.program
        demo.arguments = ["demo", "--join", "--address", "127.0.0.1"]
        demo.environment = Command.cleanEnvironment(adding: ["TMPDIR": folder.path])
        demo.standardInput = FileHandle.nullDevice
        demo.standardOutput = output
        try demo.run()
        defer { kill(demo.processIdentifier, SIGTERM) }
        var text = ""
        while !text.contains("Ctrl-C"), case let more = output.fileHandleForReading.availableData, !more.isEmpty {
            text += String(decoding: more, as: UTF8.self)
        }
        func value(_ name: String) throws -> String {
            let line = try #require(text.split(separator: "\n").first { $0.hasPrefix(name) }, "\(text)")
            return line.dropFirst(name.count).trimmingCharacters(in: .whitespaces)
        }
        let browser = try Chromium()
        let host = try browser.open(value("Your screen"), width: 1280, height: 800)
        try host.wait(for: "document.body?.dataset.invites === 'yes'")
        #expect(try host.text("document.querySelector('#code .pin').textContent") == value("PIN"))
        #expect(try host.text("document.querySelector('#code svg') !== null") == "true")
        #expect(try host.text("document.documentElement.scrollHeight <= innerHeight") == "true")
        try host.saveScreenshot("demo-host")
        let guest = try browser.open(value("Audience"), width: 390, height: 844, isDark: true)
        try guest.wait(for: "document.getElementById('join')?.hidden === false")
        let pin = "document.querySelector('#join input')"
        func tryPIN(_ text: String) throws {
            try guest.text("(\(pin).value = '\(text)', setTimeout(() => \(pin).form.requestSubmit()), true)")
        }
        try tryPIN(value("PIN") == "111111" ? "222222" : "111111")
        try guest.wait(for: "document.getElementById('join-trouble').textContent.includes('not the PIN')")
        try guest.saveScreenshot("demo-join")
        try tryPIN(value("PIN"))
        try guest.wait(for: shows("guest1-phone", "Buy milk"))
        try guest.text("document.querySelector('.zone:nth-child(2) .add input').focus()")
        try guest.type("From the audience")
        try guest.press("Enter")
        try host.wait(for: shows("alice-laptop", "From the audience"))
        try guest.saveScreenshot("demo-guest")
        #expect(try guest.text("document.documentElement.scrollWidth <= innerWidth") == "true")
        // The QR code's link has the PIN.
        let second = try browser.open(value("Audience") + "#" + value("PIN"), width: 390, height: 844)
        try second.wait(for: shows("guest2-phone", "From the audience"))
        #expect(host.faults.isEmpty && guest.faults.isEmpty && second.faults.isEmpty, "\(host.faults) \(guest.faults)")
        demo.signal(SIGINT)
        demo.waitUntilExit()
        #expect(demo.terminationStatus == 128 + SIGINT)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).isEmpty)
    }

    @Test func theClientModulePassesItsChecks() throws {
        let relay = try RelayProcess(folder: folder.path)
        let page = try Chromium().open("http://127.0.0.1:\(relay.port)/demo/?user=x&device=y")
        try page.wait(for: "document.readyState === 'complete'")
        let faults = try page.text("(async () => { \(ClientChecks.script)\nreturn faults.join('\\n'); })()")
        #expect(faults.isEmpty, "\(faults)")
    }

    /// On a relay without dev, the relay's sign-in page opens in a window and passes the sign-in to the demo page.
    @Test func usersSignInOnARelayWithoutDev() throws {
        let relay = try RelayProcess(folder: folder.path, [], environment: ["ZONECAST_DEMO": "true"])
        let origin = "http://127.0.0.1:\(relay.port)"
        let container = "iCloud.org.zonecast.demo"
        let data = ["--data", folder.path]
        #expect(try Command.run(["container", "create", container] + data).status == 0)
        struct Token: Decodable { var apiToken: String }
        let create = ["token", "create", "--container", container, "--allowed-origin", origin, "--json"]
        let token = try Command.run(create + data).json(Token.self).apiToken
        let password = UUID().uuidString
        let add = ["user", "create", "ada@example.org", "--password-stdin", "--json"]
        #expect(try Command.run(add + data, input: password).status == 0)

        let page = try Chromium().open("\(origin)/demo/?user=ada&device=phone&container=\(container)&apiToken=\(token)")
        try page.wait(for: "document.querySelector('.pane .help button.strong')?.hidden === false")
        try page.text("document.querySelector('.pane .help button.strong').click()")
        let window = try page.openedWindow()
        try window.wait(for: "document.getElementById('email') !== null")
        try window.text("document.getElementById('email').value = 'ada@example.org'")
        try window.text("document.getElementById('password').value = '\(password)'")
        try window.text("setTimeout(() => document.querySelector('form').requestSubmit())")
        try page.wait(for: "document.querySelectorAll('.pane.live').length === 1")
        try page.text("document.querySelector('.zone .add input').focus()")
        try page.type("Signed in")
        try page.press("Enter")
        try page.wait(for: "document.querySelector('.facts .pending dd').textContent === '0'")
        try page.wait(for: shows("ada-phone", "Signed in"))
        // The client stores the sign-in. `isOld` tells the reloaded page from the one before.
        try page.text("(window.isOld = true, setTimeout(() => location.reload()))")
        try page.wait(for: "window.isOld === undefined && " + shows("ada-phone", "Signed in"))
        try page.wait(for: "document.querySelectorAll('.pane.live').length === 1")
        #expect(page.faults.isEmpty)
        let means = try relay.connect().send("GET", "/demo/means.json")
        #expect(String(decoding: means.body, as: UTF8.self).hasPrefix(#"{"restart":false"#))
    }
}
