import Foundation
import ZoneKit

/// The checks from a client's side.
struct RelayChecks: Sendable {
    /// The relay's listen address, or the address given with --url.
    let address: ProbeAddress

    /// Checks whether the relay reports that it is ready.
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

    /// Checks when the relay's own certificate expires; `nil` if it has none.
    func servedCertificate() async -> Finding? {
        guard address.isSecure, let probe = try? await Probe.connect(to: address) else { return nil }
        defer { probe.close() }
        // The handshake may not be complete before a response arrives.
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
                ? "it is starting or stopping; retry in a few seconds"
                : "check the address: the relay prints its own in the line that begins with \"ready\""
        )
    }

    // MARK: In one sentence

    /// Returns why clients cannot reach the relay, beginning with its address; `nil` if no fault is found.
    func problem() async -> String? {
        let address = await publicAddress()
        return address.grade == .problem ? address.found : nil
    }

    /// Returns why clients cannot receive notices; `nil` if no fault is found.
    func noticeProblem() async -> String? {
        if let problem = await problem() { return problem }
        switch await upgrade() {
        case .succeeded: return nil
        case .refused(let answer): return "\(address) refuses the WebSocket: \(Self.refusal(answer))"
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
                    next: "the proxy does not forward requests to the relay; samples: zonecast init --domain NAME"
                )
            }
            guard let end = await probe.certificateEnd() else { return plain() }
            return Self.certificate("public address", of: "\(address) answers,", seconds: end.timeIntervalSinceNow)
        } catch {
            return await connectionFailed(error)
        }
    }

    private func plain() -> Finding {
        guard !address.isLocal else { return Finding("public address", .good, "\(address) answers") }
        return Finding(
            "public address",
            .advice,
            "\(address) answers without TLS: tokens are sent unencrypted",
            next: "set domain and acme-email, or put a proxy in front: zonecast init --domain NAME"
        )
    }

    /// Returns a finding for a certificate that expires in this many seconds.
    static func certificate(_ check: String, of what: String, seconds: Double) -> Finding {
        guard seconds >= 0 else {
            let ago = FolderChecks.words(seconds: Int64(-seconds))
            return Finding(check, .problem, "\(what) certificate expired \(ago) ago", next: renewalAdvice)
        }
        let days = Int(seconds / 86_400)
        let found = "\(what) certificate \(days == 1 ? "1 day" : "\(days) days")"
        switch days {
        case ..<7: return Finding(check, .problem, found, next: "renew it now")
        case ..<21: return Finding(check, .advice, found, next: "check that its renewal works")
        default: return Finding(check, .good, found)
        }
    }

    private static let renewalAdvice =
        "renew it; a relay with tls-cert reloads the file itself, a proxy may need a reload"

    /// Explains a failed request; a rejected certificate still shows when it expires.
    private func connectionFailed(_ fault: ProbeFault) async -> Finding {
        if await speaksTLS() {
            return Finding("public address", .problem, "\(address) speaks TLS", next: "begin the address with https://")
        }
        guard case .untrusted = fault else {
            return Finding(
                "public address",
                .problem,
                "\(address) \(fault)",
                next: "check the DNS name, the firewall, and that the proxy is running"
            )
        }
        var (end, anybody) = (Date?.none, address)
        anybody.acceptsAnyCertificate = true
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
                "\(address) has a certificate that expired \(ago) ago",
                next: Self.renewalAdvice
            )
        }
        let when = end.map { "; it expires \($0.formatted(.iso8601))" } ?? ""
        return Finding(
            "public address",
            .problem,
            "\(address) \(fault)\(when)",
            next:
                "install a certificate for \(address.host) with its whole chain; for your own certificate authority: --authorities FILE"
        )
    }

    /// Whether the server of an http address speaks TLS.
    private func speaksTLS() async -> Bool {
        guard !address.isSecure else { return false }
        var secure = address
        (secure.isSecure, secure.acceptsAnyCertificate) = (true, true)
        guard let probe = try? await Probe.connect(to: secure) else { return false }
        defer { probe.close() }
        return (try? await probe.send("GET", "/healthz")) != nil
    }

    // MARK: WebSocket

    /// Opens a notice socket without credentials; the relay's refusal proves that frames pass both ways.
    func webSocket() async -> Finding {
        switch await upgrade() {
        case .succeeded(let took):
            return Finding("WebSocket", .good, "upgrade works, round trip \(Self.text(took))")
        case .refused(let answer):
            return Finding(
                "WebSocket",
                .problem,
                "\(Self.refusal(answer)). Until this is fixed, clients poll every 60 s",
                next: "for sample proxy configurations: zonecast init --domain NAME"
            )
        case .failed(let fault):
            return Finding(
                "WebSocket",
                .problem,
                "\(address) \(fault)",
                next:
                    "the proxy must forward frames in both directions without buffering; samples: zonecast init --domain NAME"
            )
        }
    }

    /// The outcome of a WebSocket upgrade.
    private enum Upgrade {
        /// The round-trip time, in milliseconds.
        case succeeded(Double)
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
            probe.send(text: Array(#"{"hello":{"deviceID":"doctor","ckWebAuthToken":"none"}}"#.utf8))
            _ = try await probe.frame("an answer to the first frame")
            return .succeeded((ContinuousClock.now - start).milliseconds)
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
            default: "another server answered, or the proxy does not forward Upgrade"
            }
        return "the upgrade returned \(answer.status) instead of 101: \(why)"
    }

    static func text(_ milliseconds: Double) -> String {
        milliseconds < 10 ? String(format: "%.1f ms", milliseconds) : String(format: "%.0f ms", milliseconds)
    }

    // MARK: Clock

    /// Compares this machine's clock with the `Date` header of the response.
    func clock() async -> Finding {
        do throws(ProbeFault) {
            let probe = try await Probe.connect(to: address)
            defer { probe.close() }
            let sent = Date()
            let answer = try await probe.send("GET", "/healthz")
            guard let text = answer.header("date"), let date = RelayResponse.date(text) else {
                return Finding("clock", .advice, "\(address) sends no Date, so the clock cannot be compared")
            }
            return Self.clock(clockOffset: Self.clockOffset(date, sent: sent, answered: Date()))
        } catch {
            return Finding("clock", .advice, "cannot be compared: \(address) \(error)")
        }
    }

    /// Returns how far a `Date` with whole seconds is from the time between request and response.
    ///
    /// Any time in that range counts as correct, so that a slow connection is not reported as a wrong clock.
    static func clockOffset(_ date: Date, sent: Date, answered: Date) -> Double {
        max(0, date.timeIntervalSince(answered), sent.timeIntervalSince(date) - 1)
    }

    static func clock(clockOffset seconds: Double) -> Finding {
        let found = String(format: "%.1f s from the Date of the response", seconds)
        switch seconds {
        case ..<5: return Finding("clock", .good, found)
        case ..<60: return Finding("clock", .advice, found, next: "check time synchronisation: timedatectl")
        default:
            return Finding(
                "clock",
                .problem,
                found,
                next:
                    "turn on time synchronisation, on which signed requests and tokens depend: timedatectl set-ntp true"
            )
        }
    }
}
