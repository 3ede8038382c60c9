import ChildProcesses
import Foundation
import TestSupport
import Testing

/// Pictures of every page at 1280×800 and 390×844, light and dark, and checks that nothing is cut off.
///
/// A page that is taller than the window is shown in full. The folder is `ZONECAST_SCREENSHOTS`, by default
/// `.build/screenshots`.
@Suite(
    .ownThread,
    .serialized,
    .timeLimit(.minutes(15)),
    .enabled(if: Chromium.program != nil, "chromium is not installed: sudo apt install chromium")
)
struct ScreenshotTests {
    private let folder = ScratchFolder()

    /// Saves the four pictures of a page.
    private func capture(_ page: Chromium.Page, _ name: String) throws {
        for (width, height) in [(1280, 800), (390, 844)] {
            for isDark in [false, true] {
                try page.show(width: width, height: height, isDark: isDark)
                let faults = try page.text(Self.faults)
                #expect(faults.isEmpty, "\(name) at \(width) px: \(faults)")
                let whole = try Int(page.text(Self.wholeHeight)) ?? height
                try page.show(width: width, height: min(max(height, whole), 6_000), isDark: isDark)
                // A transition of colours would show those of the other scheme.
                try page.text("document.getAnimations().forEach((one) => one.finish())")
                try page.saveScreenshot("\(name)-\(width)x\(height)-\(isDark ? "dark" : "light")")
            }
        }
        try page.show(width: 1280, height: 800, isDark: false)
    }

    /// The page's height without a scroll bar.
    ///
    /// In a wide window, only the console's middle part scrolls.
    private static let wholeHeight = """
        (() => {
            const main = document.querySelector('#body > main');
            const inner = main ? Math.ceil(main.getBoundingClientRect().top + scrollY + main.scrollHeight) : 0;
            return Math.max(document.documentElement.scrollHeight, inner);
        })()
        """

    /// What does not fit: a page, table or header that is too wide or too narrow, and text that runs out of its box.
    private static let faults = """
        (() => {
            const faults = [];
            const root = document.documentElement;
            if (root.scrollWidth > root.clientWidth) faults.push(`the page is ${root.scrollWidth} px wide`);
            const header = document.querySelector('#app #top')?.getBoundingClientRect();
            if (header && (header.left > 0 || header.right < root.clientWidth)) faults.push('the header ends early');
            const name = (box) => `${box.tagName} ${box.className} "${box.textContent.trim().slice(0, 40)}"`;
            for (const box of document.querySelectorAll('.scroll, .facts, .panel, .card, dialog, form, .pane, .sheet')) {
                if (box.getClientRects().length && box.scrollWidth > box.clientWidth + 1 && !box.matches('#timeline')
                    && (innerWidth < 700 || !box.matches('.scroll'))) {
                    faults.push(`${name(box)} is ${box.scrollWidth} px wide in ${box.clientWidth}`);
                }
            }
            for (const box of document.querySelectorAll('button, .badge, h1, h2, h3, label, dt, dd')) {
                const { left, right, width } = box.getBoundingClientRect();
                const isScrolled = box.closest('.scroll, nav, #timeline, .hidden, .skip, thead, pre');
                if (width > 2 && !isScrolled && (left < -1 || right > innerWidth + 1)) {
                    faults.push(`${name(box)} reaches from ${left} to ${right}`);
                }
            }
            return faults.join('; ');
        })()
        """

    @Test("every page of the console") func console() throws {
        let push = ["ZONECAST_PUSH_NTFY": "true", "ZONECAST_PUSH_HOSTS": "127.0.0.1"]
        let fixture = try ConsoleTests.ConsoleFixture(environment: push)
        let tests = ConsoleTests()
        let container = ConsoleTests.container
        let browser = try Chromium()
        let setup = try browser.open(fixture.link)
        try setup.wait(for: "document.querySelectorAll('.door input').length === 3")
        try capture(setup, "console-set-up")
        let page = try fixture.signUp(browser)
        try page.wait(for: tests.isReady("none"))
        try capture(page, "console-first")

        try fixture.saveRecords()
        try fixture.post(
            "private/records/modify",
            """
            {"zoneID":{"zoneName":"Notes"},"operations":[{"operationType":"create","record":{"recordName":"cloudkit.zoneshare",
            "recordType":"cloudkit.share","publicPermission":"READ_ONLY","fields":{"cloudkit.title":{"value":"Our notes"}}}}]}
            """
        )
        let data = ["--data", fixture.folder.path]
        let people = ["bob@example.org", "a.very.long.name.indeed@a-long-host-name.example.org"]
        for person in people {
            let made = try Command.run(
                ["user", "create", person, "--password-stdin"] + data,
                input: "correct horse"
            )
            #expect(made.status == 0, "\(made.errors)")
        }
        for arguments in [
            [
                "token", "create", "--container", container, "--name", "web app", "--allowed-origin",
                "https://notes.example.org",
            ],
            ["token", "create", "--kind", "management", "--container", container, "--name", "build machine"],
            ["backup", "create"],
        ] {
            let made = try Command.run(arguments + data)
            #expect(made.status == 0, "\(made.errors)")
        }
        let registered = try fixture.relay.connect().send(
            "POST",
            "/device/1/\(container)/development/push/register?ckWebAuthToken=dev-alice",
            body: #"{"ntfy":{"topicURL":"https://127.0.0.1:1/topic"}}"#
        )
        #expect(registered.status == 200)
        // A connected device.
        let demo = "http://127.0.0.1:\(fixture.relay.port)/demo/?user=alice&device=phone&container=\(container)"
        let device = try browser.open(demo)
        try device.wait(for: "document.querySelectorAll('.pane.live').length === 1")

        try page.text("(window.isOld = true, setTimeout(() => location.reload()))")
        try page.wait(for: "window.isOld === undefined && " + tests.isReady("overview"))
        // The overview is last: it shows figures that the relay records every ten seconds.
        for name in ConsoleTests.pages.filter({ $0 != "overview" }) + ["overview"] {
            try tests.go(page, name)
            try capture(page, "console-\(name)")
        }
        // For Deploy/pictures/make.
        try page.saveScreenshot("console-window-1280x800-light")
        try tests.go(page, "overview", production: true)
        try capture(page, "console-production")
        try tests.go(page, "records", "?type=Post")
        try page.wait(for: "document.querySelectorAll('main tbody tr').length === 4")
        try capture(page, "console-records-post")
        try page.text("document.querySelector('main tbody button').click()")
        try page.wait(for: "document.querySelector('dialog[open] textarea, dialog[open] input') !== null")
        try capture(page, "console-record-editor")
        try page.text("document.querySelector('dialog[open]').close()")
        try tests.go(page, "users")
        try page.text("document.querySelector('main tbody a').click()")
        try page.wait(for: "document.getElementById('delete-user') !== null")
        try capture(page, "console-user")
        try page.text("document.querySelector('.who').click()")
        try page.wait(for: "document.querySelector('dialog[open]') !== null")
        try capture(page, "console-operator")
        try page.text("document.querySelector('dialog[open]').close()")
        try page.show(width: 390, height: 844, isDark: false)
        try page.text("document.querySelector('.menu').click()")
        try page.wait(for: "document.querySelector('nav.open') !== null")
        try page.saveScreenshot("console-menu-390x844-light")
        try page.show(width: 1280, height: 800, isDark: false)
        let removed = try Command.run(["user", "operator", "delete", "ada@example.org"] + data)
        #expect(removed.status == 0, "\(removed.errors)")
        try page.text("setTimeout(() => location.reload())")
        try page.wait(for: "document.querySelector('.door h1')?.innerText === 'Sign in'")
        try capture(page, "console-sign-in")
        #expect(page.faults.isEmpty, "\(page.faults)")
    }

    @Test("the pages for signing in, accounts and shares") func accounts() throws {
        let container = ConsoleTests.container
        let relay = try RelayProcess(folder: folder.path, [], environment: ["ZONECAST_CONSOLE": "false"])
        let data = ["--data", folder.path]
        #expect(try Command.run(["container", "create", container] + data).status == 0)
        let password = "correct horse"
        let add = ["user", "create", "ada@example.org", "--password-stdin"]
        #expect(try Command.run(add + data, input: password).status == 0)
        struct Token: Decodable { var apiToken: String }
        let create = [
            "token", "create", "--container", container, "--allowed-origin", "https://notes.example.org", "--json",
        ]
        let token = try Command.run(create + data).json(Token.self).apiToken
        let signIn = ["user", "sign-in", "ada@example.org", "--container", container, "--quiet"]
        let webToken = try Command.run(signIn + data).output.trimmingCharacters(in: .whitespacesAndNewlines)

        struct Refusal: Decodable { var redirectURL: String }
        let refused = try relay.connect().send(
            "GET",
            "/database/1/\(container)/development/public/users/caller?ckAPIToken=\(token)"
        )
        let address = try JSONDecoder().decode(Refusal.self, from: Data(refused.body)).redirectURL
        let origin = "http://127.0.0.1:\(relay.port)"
        let browser = try Chromium()
        let page = try browser.open(
            origin + address[(address.range(of: "/signin")?.lowerBound ?? address.startIndex)...]
        )
        func fill(_ page: Chromium.Page, name: String = "ada", password: String) throws {
            try page.wait(for: "document.getElementById('email') !== null")
            try page.text("(document.getElementById('email').value = '\(name)@example.org', window.isOld = true)")
            try page.text("document.getElementById('password').value = '\(password)'")
            try page.text("setTimeout(() => document.querySelector('form').requestSubmit())")
            try page.wait(for: "window.isOld === undefined && document.readyState === 'complete'")
        }
        try page.wait(for: "document.getElementById('email') !== null")
        try capture(page, "sign-in")
        try fill(page, password: "wrong horse")
        try capture(page, "sign-in-refused")
        try fill(page, password: password)
        try capture(page, "sign-in-done")

        let account = try browser.open(origin + "/account")
        try account.wait(for: "document.getElementById('email') !== null")
        try capture(account, "account-sign-in")
        try fill(account, password: password)
        try capture(account, "account")

        let caller = ["--url", origin, "--container", container, "--web-token", webToken, "--api-token", token]
        #expect(try Command.run(["zone", "create", "Notes"] + caller).status == 0)
        let shared = try Command.run(
            ["share", "create", "Notes", "--title", "Our notes", "--public", "write", "--quiet"] + caller
        )
        #expect(shared.status == 0, "\(shared.errors)")
        let link = shared.output.trimmingCharacters(in: .whitespacesAndNewlines)
        let bob = ["user", "create", "bob@example.org", "--password-stdin"]
        #expect(try Command.run(bob + data, input: password).status == 0)
        let share = try browser.open(link)
        try share.wait(for: "document.getElementById('email') !== null")
        try capture(share, "share")
        try fill(share, name: "bob", password: password)
        try capture(share, "share-joined")
        let none = try browser.open(link + "x")
        try none.wait(for: "document.readyState === 'complete' && document.body.innerText !== ''")
        try capture(none, "share-unknown")
        for each in [page, account, share] { #expect(each.faults.isEmpty, "\(each.faults)") }
    }

    @Test("the demo, for one screen, one device, a presenter and guests") func demo() throws {
        let relay = try RelayProcess(folder: folder.path + "/dev")
        let origin = "http://127.0.0.1:\(relay.port)/demo/"
        let browser = try Chromium()
        let page = try browser.open(origin)
        let areLive = "document.body?.dataset.ready === 'yes' && document.querySelectorAll('.pane.live').length === 3"
        try page.wait(for: areLive)
        try page.wait(for: "document.querySelectorAll('#alice-laptop .notes li').length === 3")
        try capture(page, "demo")
        try page.text("document.getElementById('share').click()")
        try page.wait(for: "document.querySelector('#bob-tablet .badge.locked') !== null")
        try page.text("document.querySelector('#bob-tablet .zone:nth-child(2) input[type=checkbox]').click()")
        try page.wait(for: "document.querySelector('#timeline .step.refused') !== null")
        try capture(page, "demo-refused")
        let single = try browser.open(origin + "?user=carol&device=phone")
        try single.wait(for: "document.querySelectorAll('.pane.live').length === 1")
        try capture(single, "demo-device")

        let tour = try browser.open(origin)
        try tour.wait(for: areLive)
        try tour.text("document.getElementById('run-tour').click()")
        try tour.text(
            "(document.getElementById('speed').value = 'fast', document.getElementById('speed').dispatchEvent(new Event('change')))"
        )
        try tour.wait(600, for: "document.body.dataset.tour !== undefined")
        try capture(tour, "demo-tour")
        let (audience, output) = (ChildProcess(), Pipe())
        audience.executableURL = Command.program
        audience.arguments = ["demo", "--join", "--address", "127.0.0.1"]
        audience.environment = Command.cleanEnvironment(adding: ["TMPDIR": folder.path])
        audience.standardInput = FileHandle.nullDevice
        audience.standardOutput = output
        try audience.run()
        defer { kill(audience.processIdentifier, SIGTERM) }
        var text = ""
        while !text.contains("Ctrl-C"), case let more = output.fileHandleForReading.availableData, !more.isEmpty {
            text += String(decoding: more, as: UTF8.self)
        }
        func value(_ name: String) throws -> String {
            let line = try #require(text.split(separator: "\n").first { $0.hasPrefix(name) }, "\(text)")
            return line.dropFirst(name.count).trimmingCharacters(in: .whitespaces)
        }
        let host = try browser.open(value("Your screen"))
        try host.wait(for: "document.body?.dataset.invites === 'yes'")
        try capture(host, "demo-host")
        let guest = try browser.open(value("Audience"))
        try guest.wait(for: "document.getElementById('join')?.hidden === false")
        try capture(guest, "demo-join")
        let second = try browser.open(value("Audience") + "#" + value("PIN"))
        try second.wait(for: "document.querySelectorAll('.notes input[type=text]').length > 0")
        try capture(second, "demo-guest")
        for each in [page, single, tour, host, guest, second] { #expect(each.faults.isEmpty, "\(each.faults)") }
    }
}
