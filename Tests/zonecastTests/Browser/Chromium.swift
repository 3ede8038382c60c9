import ChildProcesses
import Foundation
import TestSupport

/// Debian's chromium, headless, controlled over a pipe with the DevTools protocol, so that no package is needed.
final class Chromium {
    /// The program, `nil` if it is not installed.
    static let program = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }

    /// The browser ended, refused a call, or missed a deadline.
    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    private let process = ChildProcess()
    private let profile = ScratchFolder()
    private let (calls, answers) = (Pipe(), Pipe())
    private var lastCall = 0
    private var pending: [UInt8] = []
    /// Events that the browser sent, by page.
    fileprivate var events: [String: [Event]] = [:]

    init() throws {
        guard let program = Self.program else { throw Failure(description: "chromium is not installed") }
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        // Chromium reads calls from descriptor 3 and writes replies to 4; a ChildProcess passes on 0 to 2 only.
        process.arguments = [
            "-c", "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null", program, "--remote-debugging-pipe",
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-extensions", "--user-data-dir=\(profile.path)", "about:blank",
        ]
        process.standardInput = calls
        process.standardOutput = answers
        process.standardError = FileHandle.nullDevice
        try process.run()
    }

    deinit {
        kill(process.processIdentifier, SIGKILL)
        // The browser writes to its profile folder, which is deleted next, until it ends.
        let deadline = ContinuousClock.now + .seconds(120)
        while process.isRunning, ContinuousClock.now < deadline { usleep(5_000) }
    }

    /// Opens an address in a new page with a browser context of its own.
    func open(_ address: String, width: Int = 1280, height: Int = 960, isDark: Bool = false) throws -> Page {
        let context: Context = try call("Target.createBrowserContext", Empty())
        let target: Target = try call("Target.createTarget", NewTarget(browserContextId: context.browserContextId))
        let page = try attach(to: target.targetId, in: context.browserContextId)
        for domain in ["Page", "Runtime", "Log", "Network"] { try page.tell("\(domain).enable", Empty()) }
        try page.show(width: width, height: height, isDark: isDark)
        try page.tell("Page.navigate", Destination(url: address))
        return page
    }

    private func attach(to target: String, in context: String) throws -> Page {
        let attached: Session = try call("Target.attachToTarget", Attachment(targetId: target))
        return Page(self, target: target, session: attached.sessionId, context: context)
    }

    /// Waits for the window that a page opened and attaches to it.
    fileprivate func window(openedBy target: String, in context: String) throws -> Page {
        let deadline = ContinuousClock.now + .seconds(120)
        while ContinuousClock.now < deadline {
            let targets: Targets = try call("Target.getTargets", Empty())
            if let opened = targets.targetInfos.first(where: { $0.openerId == target }) {
                return try attach(to: opened.targetId, in: context)
            }
            usleep(50_000)
        }
        throw Failure(description: "waited 120 s for the page to open a window")
    }

    fileprivate func call<Parameters: Encodable, Answer: Decodable>(
        _ method: String,
        _ parameters: Parameters,
        session: String? = nil
    ) throws -> Answer {
        lastCall += 1
        let call = Call(id: lastCall, method: method, params: parameters, sessionId: session)
        try calls.fileHandleForWriting.write(contentsOf: JSONEncoder().encode(call) + [0])
        let deadline = ContinuousClock.now + .seconds(120)
        while true {
            let message = try nextMessage(until: deadline, of: method)
            let head = try JSONDecoder().decode(Head.self, from: message)
            if let session = head.sessionId, head.id == nil {
                events[session, default: []].append(try JSONDecoder().decode(Event.self, from: message))
            }
            guard head.id == lastCall else { continue }
            if let error = head.error { throw Failure(description: "\(method): \(error.message)") }
            return try JSONDecoder().decode(Reply<Answer>.self, from: message).result
        }
    }

    /// Messages are separated by zero bytes.
    private func nextMessage(until deadline: ContinuousClock.Instant, of method: String) throws -> Data {
        while true {
            if let end = pending.firstIndex(of: 0) {
                defer { pending.removeFirst(end + 1) }
                return Data(pending[..<end])
            }
            let descriptor = answers.fileHandleForReading.fileDescriptor
            var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            let left = deadline - ContinuousClock.now
            guard left > .zero else { throw Failure(description: "waited 120 s for the browser's answer to \(method)") }
            guard poll(&waiting, 1, Int32(left / .milliseconds(1)) + 1) > 0 else { continue }
            var bytes = [UInt8](repeating: 0, count: 1 << 16)
            let count = read(descriptor, &bytes, bytes.count)
            guard count > 0 else { throw Failure(description: "the browser ended during \(method)") }
            pending += bytes[..<count]
        }
    }

    /// A page, used as a person would use it.
    final class Page {
        private let browser: Chromium
        private let target: String
        private let session: String
        private let context: String

        fileprivate init(_ browser: Chromium, target: String, session: String, context: String) {
            self.browser = browser
            self.target = target
            self.session = session
            self.context = context
        }

        /// The window that the page's scripts opened.
        func openedWindow() throws -> Page { try browser.window(openedBy: target, in: context) }

        fileprivate func tell(_ method: String, _ parameters: some Encodable) throws {
            let _: Empty = try browser.call(method, parameters, session: session)
        }

        /// Evaluates an expression and returns its value as text; waits for promises.
        @discardableResult func text(_ expression: String) throws -> String {
            let script = "(async () => String(await (\(expression))))()"
            let outcome: Outcome = try browser.call("Runtime.evaluate", Script(expression: script), session: session)
            if let exception = outcome.exceptionDetails {
                throw Failure(description: "\(expression): \(exception.words)")
            }
            return outcome.result.value ?? ""
        }

        /// Waits until an expression is true.
        func wait(_ seconds: Int = 120, for expression: String) throws {
            let deadline = ContinuousClock.now + .seconds(seconds)
            // While a page navigates, evaluations can fail.
            while (try? text(expression)) != "true" {
                guard ContinuousClock.now < deadline else {
                    let shown = try text("document.body.innerText")
                    let value = try text(expression)
                    throw Failure(
                        description: "waited \(seconds) s for \(expression), which is \(value); the page: \(shown)"
                    )
                }
                usleep(50_000)
            }
        }

        /// Presses a key; a single letter is also typed.
        ///
        /// The event has the time `time`, in seconds since 1970, or now.
        func press(_ key: String, at time: Double? = nil) throws {
            let text = key == "Enter" ? "\r" : key.count == 1 ? key : nil
            let codes = ["Enter": 13, "Tab": 9, "ArrowLeft": 37, "ArrowRight": 39, " ": 32]
            for type in ["keyDown", "keyUp"] {
                let press = KeyPress(
                    type: type,
                    key: key,
                    text: type == "keyDown" ? text : nil,
                    windowsVirtualKeyCode: codes[key],
                    timestamp: time
                )
                try tell("Input.dispatchKeyEvent", press)
            }
        }

        func type(_ text: String) throws { for letter in text { try press(String(letter)) } }

        /// Adds a virtual authenticator that stores passkeys and verifies the user.
        func addAuthenticator() throws {
            try tell("WebAuthn.enable", Empty())
            let _: Authenticator = try browser.call(
                "WebAuthn.addVirtualAuthenticator",
                NewAuthenticator(),
                session: session
            )
        }

        /// Saves downloads to a folder, under the names that the server sends.
        func keepDownloads(in folder: String) throws {
            let _: Empty = try browser.call(
                "Browser.setDownloadBehavior",
                Downloads(downloadPath: folder, browserContextId: context)
            )
        }

        /// Gives the window a size and a colour scheme.
        func show(width: Int, height: Int, isDark: Bool) throws {
            try tell("Emulation.setDeviceMetricsOverride", Metrics(width: width, height: height))
            try tell("Emulation.setEmulatedMedia", Media(isDark: isDark))
        }

        /// Saves a screenshot to the folder in `ZONECAST_SCREENSHOTS`, by default `.build/screenshots`.
        func saveScreenshot(_ name: String) throws {
            let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
                .appendingPathComponent("../../..").standardizedFileURL.path
            let folder = ProcessInfo.processInfo.environment["ZONECAST_SCREENSHOTS"] ?? "\(root)/.build/screenshots"
            let picture: Picture = try browser.call("Page.captureScreenshot", Shot(), session: session)
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            try picture.data.write(to: URL(fileURLWithPath: "\(folder)/\(name).png"))
        }

        /// Failed requests, as the browser logs them: a working page has none.
        var refusals: [String] {
            (browser.events[session] ?? []).compactMap { event in
                guard let entry = event.params?.entry, entry.level == "error", entry.source == "network" else {
                    return nil
                }
                return entry.text
            }
        }

        /// Script errors, and everything that the browser blocked.
        var faults: [String] {
            (browser.events[session] ?? []).compactMap { event in
                if let exception = event.params?.exceptionDetails { return exception.words }
                guard let entry = event.params?.entry, entry.level == "error", entry.source != "network" else {
                    return nil
                }
                return entry.text
            }
        }

        /// The addresses of all requests.
        var requests: [String] { (browser.events[session] ?? []).compactMap { $0.params?.request?.url } }
    }
}

// Types of the DevTools protocol.

private struct Call<Parameters: Encodable>: Encodable {
    var id: Int
    var method: String
    var params: Parameters
    var sessionId: String?
}

private struct Head: Decodable {
    struct ProtocolError: Decodable { var message: String }
    var id: Int?
    var sessionId: String?
    var error: ProtocolError?
}

private struct Reply<Answer: Decodable>: Decodable { var result: Answer }
private struct Empty: Codable {}
private struct Context: Decodable { var browserContextId: String }
private struct Target: Decodable { var targetId: String }
private struct Session: Decodable { var sessionId: String }

private struct Targets: Decodable {
    struct Info: Decodable { var targetId: String, openerId: String? }
    var targetInfos: [Info]
}

private struct Picture: Decodable { var data: Data }
private struct Destination: Encodable { var url: String }

private struct Downloads: Encodable {
    var behavior = "allow"
    var downloadPath: String
    var browserContextId: String
}

private struct NewTarget: Encodable {
    var url = "about:blank"
    var browserContextId: String
}

private struct Attachment: Encodable {
    var targetId: String
    var flatten = true
}

private struct Authenticator: Decodable { var authenticatorId: String }

private struct NewAuthenticator: Encodable {
    struct Options: Encodable {
        var `protocol` = "ctap2"
        var transport = "internal"
        var hasResidentKey = true
        var hasUserVerification = true
        var isUserVerified = true
        var automaticPresenceSimulation = true
    }
    var options = Options()
}

private struct Metrics: Encodable {
    var width: Int
    var height: Int
    var deviceScaleFactor = 1
    var mobile = false
}

private struct Media: Encodable {
    struct Feature: Encodable {
        var name = "prefers-color-scheme"
        var value: String
    }
    var features: [Feature]

    init(isDark: Bool) { features = [Feature(value: isDark ? "dark" : "light")] }
}

private struct Script: Encodable {
    var expression: String
    var awaitPromise = true
    var returnByValue = true
    var userGesture = true
}

private struct KeyPress: Encodable {
    var type: String
    var key: String
    var text: String?
    var windowsVirtualKeyCode: Int?
    var timestamp: Double?
}

private struct Shot: Encodable {
    var format = "png"
    var captureBeyondViewport = true
}

private struct Outcome: Decodable {
    struct Value: Decodable { var value: String? }
    var result: Value
    var exceptionDetails: ExceptionDetails?
}

private struct ExceptionDetails: Decodable {
    struct Exception: Decodable { var description: String? }
    var text: String
    var exception: Exception?
    var words: String { exception?.description ?? text }
}

/// The parts of browser events that tests use.
private struct Event: Decodable {
    struct Entry: Decodable { var source: String, level: String, text: String }
    /// `nil` for a WebSocket.
    struct Request: Decodable { var url: String? }
    struct Parameters: Decodable {
        var exceptionDetails: ExceptionDetails?
        var entry: Entry?
        var request: Request?
    }
    var params: Parameters?
}
