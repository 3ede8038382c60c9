import Crypto
package import Records
import RelayAPI
package import RelayCore
import RelaySystem

/// Values that the relay issues and later accepts once, before they expire: challenges and tickets.
///
/// Issued values are not stored, so that any number of requests is harmless; only used ones are remembered until they
/// expire. Several relays on the same accounts accept each other's values, and all together each value once.
package struct OneTimeSeal: Sendable {
    /// Random bytes, and the time of expiry.
    private static let headLength = 16 + 8
    private static let sealLength = 32
    /// How much longer a use is remembered, since the clocks of several relays differ by some seconds.
    private static let slack = Duration.seconds(60)

    private let purpose: String
    private let life: Duration
    private let key: SymmetricKey
    private let uses: any Attempts

    /// - Parameters:
    ///   - purpose: Values for one purpose are invalid for another one.
    ///   - relayKey: The key of the accounts; `nil` draws one.
    ///   - life: How long a value is valid.
    ///   - uses: Remembers the used values.
    package init(_ purpose: String, relayKey: [UInt8]?, life: Duration, uses: any Attempts) {
        self.purpose = purpose
        self.life = life
        self.uses = uses
        key = relayKey.map { SymmetricKey(relayKey: $0, purpose: purpose) } ?? SymmetricKey(size: .bits256)
    }

    /// Returns a new value: 16 random bytes, the time of its expiry, the content, and an HMAC.
    ///
    /// Only the same `holder` can use it; it is not part of the value.
    package func issue(_ content: [UInt8] = [], to holder: String = "", at now: Timestamp) -> [UInt8] {
        let end = (now + life).milliseconds
        let text = RandomSource.system.bytes(16) + withUnsafeBytes(of: end.bigEndian) { Array($0) } + content
        return text + seal(text, of: holder)
    }

    /// Returns the content of a value, and marks it as used.
    ///
    /// Returns `nil` if it was not issued to `holder`, has expired, or was used, and if it is not known whether it was.
    package func take(_ value: [UInt8], from holder: String = "", at now: Timestamp) -> [UInt8]? {
        guard value.count >= Self.headLength + Self.sealLength else { return nil }
        let text = Array(value.dropLast(Self.sealLength))
        guard ConstantTime.areEqual(Array(value.suffix(Self.sealLength)), seal(text, of: holder)) else { return nil }
        let end = Timestamp(milliseconds: text[16..<Self.headLength].reduce(0) { $0 << 8 | Int64($1) })
        let use = "\(purpose) \(Hex.encode(text.prefix(16)))"
        guard end > now, (try? uses.isFirstUse(of: use, within: life + Self.slack)) == true else { return nil }
        return Array(text.dropFirst(Self.headLength))
    }

    private func seal(_ text: [UInt8], of holder: String) -> [UInt8] {
        let content = Array(SHA256.hash(data: Array(holder.utf8))) + text
        return Array(HMAC<SHA256>.authenticationCode(for: content, using: key))
    }
}
