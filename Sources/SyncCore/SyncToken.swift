/// A change token as a client sees it: opaque text to store, send back and compare for equality only.
package struct SyncToken: Hashable, Sendable, Codable {
    package let text: String

    package init(_ text: String) { self.text = text }

    package init(from decoder: any Decoder) throws { text = try decoder.singleValueContainer().decode(String.self) }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }
}
