import Foundation
import ZoneKit

/// What `zonecast doctor` looks at from a client's side.
struct RelayChecks: Sendable {
    /// Where the relay itself listens; or the address that was asked about.
    let address: ProbeAddress

    /// Whether the relay says that it is ready.
    func listening() async -> Finding {
        do throws(ProbeFault) {
            let probe = try await Probe.connect(to: address)
            defer { probe.close() }
            let answer = try await probe.send("GET", "/readyz")
            guard answer.status == 200 else { return notReady(answer) }
            return Finding("listening", .good, "\(address)")
        } catch {
            return Finding(
                "listening",
                .problem,
                "\(address) \(error)",
                next: "is it running there? zonecast serve prints its address; with systemd: systemctl status zonecast"
            )
        }
    }

    /// For how long the certificate is good that the relay itself shows; `nil` where it shows none.
    func shownCertificate() async -> Finding? {
        guard address.isSecure, let probe = try? await Probe.connect(to: address) else { return nil }
        defer { probe.close() }
        // Before something has come back, the handshake may not be over.
        _ = try? await probe.send("GET", "/healthz")
        guard let end = await probe.certificateEnd() else { return nil }
        return Self.certificate("certificate", of: "\(address),", seconds: end.timeIntervalSinceNow)
    }

    private func notReady(_ answer: ProbeAnswer) -> Finding {
        let found = "\(address) answers \(answer.status) to GET /readyz"
        if let reason = answer.reason { return Finding("listening", .problem, "\(found): \(reason)") }
        return Finding(
            "listening",
            .problem,
            found,
            next: answer.status == 503
                ? "it is starting or stopping: try again in a few seconds"
                : "is this the relay's address? Its own is in the line that begins with \"ready\""
        )
    }

    // MARK: In one sentence

    /// What keeps clients from the relay, in words that begin with its address; `nil` where nothing is found.
    func trouble() async -> String? {
        let address = await publicAddress()
        return address.grade == .problem ? address.found : nil
    }

    /// The same for what keeps them from its notices.
    func noticeTrouble() async -> String? {
        if let trouble = await trouble() { return trouble }
        switch await upgrade() {
        case .went: return nil
        case .refused(let answer): return "\(address) opens no WebSocket: \(Self.refusal(answer))"
        case .failed(let fault): return "\(address) \(fault)"
        }
    }

    // MARK: The public address

    func publicAddress() async -> Finding {
        do throws(ProbeFault) {
            let probe = try await Probe.connect(to: address)
            defer { probe.close() }
            let answer = try await probe.send("GET", "/healthz")
            guard answer.status == 200 else {
                let reason = answer.reason.map { ": \($0)" } ?? ""
                return Finding(
                    "public address",
                    .problem,
                    "\(address) answers \(answer.status) to GET /healthz\(reason)",
                    next: "the proxy does not pass requests on to the relay; samples: zonecast init --domain NAME"
                )
            }
            guard let end = await probe.certificateEnd() else { return plain() }
            return Self.certificate("public address", of: "\(address) answers,", seconds: end.timeIntervalSinceNow)
        } catch {
            return await untold(error)
        }
    }

    private func plain() -> Finding {
        guard !address.isLocal else { return Finding("public address", .good, "\(address) answers") }
        return Finding(
            "public address",
            .advice,
            "\(address) answers without TLS: tokens go in clear",
            next: "set tls-cert and tls-key, or put a proxy in front: zonecast init --domain NAME"
        )
    }

    /// How long a certificate is good that ends in so many seconds.
    static func certificate(_ check: String, of what: String, seconds: Double) -> Finding {
        guard seconds >= 0 else {
            let ago = FolderChecks.words(seconds: Int64(-seconds))
            return Finding(check, .problem, "\(what) certificate ended \(ago) ago", next: renewing)
        }
        let days = Int(seconds / 86_400)
        let found = "\(what) certificate \(days == 1 ? "1 day" : "\(days) days")"
        switch days {
        case ..<7: return Finding(check, .problem, found, next: "renew it now")
        case ..<21: return Finding(check, .advice, found, next: "see that its renewal works")
        default: return Finding(check, .good, found)
        }
    }

    private static let renewing =
        "renew it; a relay with tls-cert reads the new file by itself, a proxy may have to be reloaded"

    /// A certificate that is refused still says when it ends.
    private func untold(_ fault: ProbeFault) async -> Finding {
        if await speaksTLS() {
            return Finding("public address", .problem, "\(address) speaks TLS", next: "begin the address with https://")
        }
        guard case .untrusted = fault else {
            return Finding(
                "public address",
                .problem,
                "\(address) \(fault)",
                next: "check the name in the DNS, the firewall, and that the proxy runs"
            )
        }
        var (end, anybody) = (Date?.none, address)
        anybody.trustsAnybody = true
        if let probe = try? await Probe.connect(to: anybody) {
            _ = try? await probe.send("GET", "/healthz")
            end = await probe.certificateEnd()
            probe.close()
        }
        if let end, end < Date() {
            let ago = FolderChecks.words(seconds: Int64(-end.timeIntervalSinceNow))
            return Finding(
                "public address",
                .problem,
                "\(address) shows a certificate that ended \(ago) ago",
                next: Self.renewing
            )
        }
        let when = end.map { "; it ends \($0.formatted(.iso8601))" } ?? ""
        return Finding(
            "public address",
            .problem,
            "\(address) \(fault)\(when)",
            next:
                "it needs a certificate for \(address.host) with its whole chain; for an authority of your own: --authorities FILE"
        )
    }

    /// Whether what was asked in clear would answer in TLS.
    private func speaksTLS() async -> Bool {
        guard !address.isSecure else { return false }
        var secure = address
        (secure.isSecure, secure.trustsAnybody) = (true, true)
        guard let probe = try? await Probe.connect(to: secure) else { return false }
        defer { probe.close() }
        return (try? await probe.send("GET", "/healthz")) != nil
    }

    // MARK: WebSocket

    /// Opens a socket for notices without credentials: that the relay refuses them proves that frames go both ways.
    func webSocket() async -> Finding {
        switch await upgrade() {
        case .went(let took):
            return Finding("WebSocket", .good, "upgrade goes through, \(Self.text(took)) there and back")
        case .refused(let answer):
            return Finding(
                "WebSocket",
                .problem,
                "\(Self.refusal(answer)). Clients poll every 60 s meanwhile",
                next: "samples of proxies that do: zonecast init --domain NAME"
            )
        case .failed(let fault):
            return Finding(
                "WebSocket",
                .problem,
                "\(address) \(fault)",
                next: "the proxy must pass frames on both ways and unbuffered; samples: zonecast init --domain NAME"
            )
        }
    }

    /// What became of a WebSocket.
    private enum Upgrade {
        /// There and back, in milliseconds.
        case went(Double)
        case refused(ProbeAnswer)
        case failed(ProbeFault)
    }

    private func upgrade() async -> Upgrade {
        do throws(ProbeFault) {
            let probe = try await Probe.connect(to: address)
            defer { probe.close() }
            let answer = try await probe.upgrade("/push/1/_doctor/development")
            guard answer.status == 101 else { return .refused(answer) }
            let start = ContinuousClock.now
            await probe.send(text: Array(#"{"hello":{"deviceID":"doctor","ckWebAuthToken":"none"}}"#.utf8))
            _ = try await probe.frame("an answer to the first frame")
            return .went((ContinuousClock.now - start).milliseconds)
        } catch {
            return .failed(error)
        }
    }

    private static func refusal(_ answer: ProbeAnswer) -> String {
        let isOurs = answer.header("content-type")?.hasPrefix("application/json") ?? false
        let why =
            switch (answer.status, isOurs) {
            case (426, true): "the proxy does not forward Upgrade"
            case (503, true): "the relay has too many connections"
            default: "it does not come from the relay, or the proxy does not forward Upgrade"
            }
        return "the upgrade returned \(answer.status) instead of 101: \(why)"
    }

    static func text(_ milliseconds: Double) -> String {
        milliseconds < 10 ? String(format: "%.1f ms", milliseconds) : String(format: "%.0f ms", milliseconds)
    }

    // MARK: Clock

    /// Holds this machine's clock against the `Date` of whoever answers.
    func clock() async -> Finding {
        do throws(ProbeFault) {
            let probe = try await Probe.connect(to: address)
            defer { probe.close() }
            let asked = Date()
            let answer = try await probe.send("GET", "/healthz")
            guard let text = answer.header("date"), let date = RelayResponse.date(text) else {
                return Finding("clock", .advice, "\(address) gives no Date, so the clock cannot be compared")
            }
            return Self.clock(apart: Self.apart(date, asked: asked, answered: Date()))
        } catch {
            return Finding("clock", .advice, "it cannot be compared: \(address) \(error)")
        }
    }

    /// How many seconds a `Date`, which has whole ones, is off what it may be: any moment between question and answer, so that a
    /// slow way is not taken for a wrong clock.
    static func apart(_ date: Date, asked: Date, answered: Date) -> Double {
        max(0, date.timeIntervalSince(answered), asked.timeIntervalSince(date) - 1)
    }

    static func clock(apart seconds: Double) -> Finding {
        let found = String(format: "%.1f s from the Date of the answer", seconds)
        switch seconds {
        case ..<5: return Finding("clock", .good, found)
        case ..<60: return Finding("clock", .advice, found, next: "is time synchronisation on? timedatectl")
        default:
            return Finding(
                "clock",
                .problem,
                found,
                next: "signed requests and tokens depend on it: timedatectl set-ntp true"
            )
        }
    }
}
