import Foundation
import Records
import RelayConsole
import RelayCore
import RelayServer
import RelaySystem

/// `zonecast demo --join`: a relay on the local network that an audience enters with a PIN.
///
/// The relay runs without `--dev`, in a new folder with a container of its own, and both end with the demo.
struct DemoJoin {
    /// A new one for each demo: browsers keep what they stored for an earlier one.
    private let container = "iCloud.org.zonecast.audience-" + RandomSource.system.hex(byteCount: 3)
    /// The usual port of a relay, which a presenter can say; if it is taken, the demo uses any free one.
    static let usualPort = 8080

    /// The address to listen on.
    let host: String
    /// 0 is any free port.
    var port: Int

    /// - Throws: `CommandFailure` if this machine has no such address, or none beyond loopback.
    init(address: String?, port: Int) throws {
        self.port = port
        let known = NetworkAddress.all()
        if let address {
            guard known.contains(address) || address == "127.0.0.1" else {
                let others = (known + ["127.0.0.1"]).joined(separator: ", ")
                throw CommandFailure(.usage, "\(address) is not an address of this machine. Its addresses: \(others).")
            }
            host = address
        } else {
            guard let first = known.first else {
                throw CommandFailure(
                    .failed,
                    "This machine is not connected to a network. Connect it, or try on this machine: --address 127.0.0.1"
                )
            }
            host = first
        }
    }

    var isLoopback: Bool { host == "127.0.0.1" }

    /// Says what others will reach, and asks.
    ///
    /// On loopback there is nothing to ask.
    ///
    /// - Throws: `CommandFailure` if the user declines, or cannot be asked.
    func askBeforeListening() throws {
        guard !isLoopback else { return }
        let others = NetworkAddress.all().filter { $0 != host }
        let choice = others.isEmpty ? "" : " Other addresses: --address \(others.joined(separator: " or "))."
        try Terminal.confirm(
            "The demo will listen on \(host), \(port == 0 ? "a free port" : "port \(port)"), which every device on that network can reach, without "
                + "encryption. Guests need the PIN.\(choice)",
            byTyping: "yes",
            called: "yes"
        )
    }

    /// Creates the container, the API token and the secrets in a new folder.
    func prepare(in folder: String) throws -> DemoGuests.Settings {
        guard let container = ContainerID(self.container) else {
            throw CommandFailure(.failed, "\(self.container) is not a container's name.")
        }
        let store = try DataFolder.home(folder + "/relay").accounts()
        try store.addContainer(container)
        let token = try store.addAPIToken(
            in: ContainerEnvironment(container, .development),
            name: "demo",
            notes: "",
            callbackURL: nil,
            allowedOrigins: []
        )
        let settings = DemoGuests.Settings(
            container: self.container,
            apiToken: token.text,
            pin: String(format: "%06d", Int.random(in: 0..<1_000_000)),
            hostSecret: RandomSource.system.hex(byteCount: 16)
        )
        let file = folder + "/guests.json"
        let data = try JSONEncoder().encode(settings)
        guard FileManager.default.createFile(atPath: file, contents: data, attributes: [.posixPermissions: 0o600])
        else {
            throw CommandFailure(.failed, "\(file) cannot be written.")
        }
        return settings
    }

    /// The lines that tell the presenter where everything is.
    ///
    /// `width` is that of the terminal; without a terminal, or in a narrow one, there is no QR code.
    static func lines(
        _ address: String,
        pin: String,
        hostSecret: String,
        width: Int?,
        hasColour: Bool
    ) -> [String] {
        let audience = "\(address)/demo/?join"
        var code: [String] = []
        // As on the presenter's page, the code's link has the PIN.
        if let width, let link = QRCode("\(audience)#\(pin)"), link.lines(hasColour: false)[0].count <= width {
            code = link.lines(hasColour: hasColour)
        }
        return [
            "Your screen  \(address)/demo/?host#\(hostSecret)",
            "             It shows a QR code for the audience. Do not share this link.",
            "Audience     \(audience)",
            "PIN          \(pin)",
        ] + code + ["Ctrl-C ends the demo and deletes everything."]
    }
}

/// This machine's IPv4 addresses.
enum NetworkAddress {
    /// Returns the addresses beyond loopback; private ones first.
    static func all() -> [String] {
        var first: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&first) == 0 else { return [] }
        defer { freeifaddrs(first) }
        var found: [String] = []
        var next = first
        while let interface = next {
            next = interface.pointee.ifa_next
            let flags = Int32(bitPattern: interface.pointee.ifa_flags)
            guard let address = interface.pointee.ifa_addr, Int32(address.pointee.sa_family) == AF_INET,
                flags & Int32(IFF_UP) != 0, flags & Int32(IFF_LOOPBACK) == 0
            else { continue }
            var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
            let length = socklen_t(MemoryLayout<sockaddr_in>.size)
            guard getnameinfo(address, length, &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST) == 0 else {
                continue
            }
            let bytes = text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
            found.append(String(decoding: bytes, as: UTF8.self))
        }
        return found.filter(isPrivate) + found.filter { !isPrivate($0) }
    }

    static func isPrivate(_ address: String) -> Bool {
        let parts = address.split(separator: ".").compactMap { Int($0) }
        guard parts.count == 4 else { return false }
        return parts[0] == 10 || (parts[0] == 192 && parts[1] == 168)
            || (parts[0] == 172 && (16...31).contains(parts[1]))
    }
}
