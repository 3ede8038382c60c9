/// Who gets mail, and by which server on this machine.
package struct MailReceivers: Hashable, Sendable {
    package var to: [String]
    /// `nil`: zonecast at this machine's name.
    package var from: String?
    package var host: String
    package var port: Int

    package init(to: [String], from: String? = nil, host: String = "127.0.0.1", port: Int = 25) {
        self.to = to
        self.from = from
        self.host = host
        self.port = port
    }

    /// Whether a text is one address, and nothing that could become another line or command.
    package static func isAddress(_ text: String) -> Bool {
        let parts = text.split(separator: "@", omittingEmptySubsequences: false)
        return parts.count == 2 && parts.allSatisfy { !$0.isEmpty } && text.utf8.count <= 254
            && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && !"<>()[]\\,;:\"".utf8.contains($0) }
    }

    /// `127.0.0.1:25`: a server on this machine; `nil` for any other.
    package static func server(_ text: String) -> (host: String, port: Int)? {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, ["127.0.0.1", "localhost"].contains(parts[0]), let port = Int(parts[1]),
            (1...65_535).contains(port)
        else { return nil }
        return (String(parts[0]), port)
    }
}
