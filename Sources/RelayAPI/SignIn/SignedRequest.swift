import Crypto
import Foundation
import HTTPTypes
package import Records
import RelayCore
import Synchronization

/// A server-to-server signature and all messages that it may sign.
///
/// See Wire.md, "Server-to-server keys".
struct SignedRequest {
    var date: Timestamp
    var signature: P256.Signing.ECDSASignature
    /// The variants that existing clients sign for this request; they differ in the query, the path prefix and the
    /// empty body.
    var messages: [[UInt8]]
    /// Whether a replay would apply a change twice.
    var isWrite: Bool

    /// Returns `nil` if a header is missing or malformed; `publicURL` is the URL at which clients reach the relay, if
    /// known.
    init?(_ headers: SigningHeaders, of request: APIRequest, publicURL: String?) {
        guard let dateText = headers.date, let date = SignatureDate.parse(dateText),
            let encoded = headers.signature, let der = Base64.decode(encoded),
            let signature = try? P256.Signing.ECDSASignature(derRepresentation: der)
        else { return nil }
        self.date = date
        self.signature = signature
        isWrite = Self.isWrite(request)
        let hashes = [Base64.encode(Array(SHA256.hash(data: request.body)))] + (request.body.isEmpty ? [""] : [])
        messages = hashes.flatMap { hash in
            Self.paths(of: request, publicURL).map { Array("\(dateText):\(hash):\($0)".utf8) }
        }
    }

    /// Identifies the signature, by its first number.
    ///
    /// Negating the second number gives another valid signature, so it must not be included.
    var fingerprint: UInt128 { signature.rawRepresentation.prefix(16).reduce(0) { $0 << 8 | UInt128($1) } }

    func isMade(with key: P256.Signing.PublicKey) -> Bool {
        messages.contains { key.isValidSignature(signature, for: SHA256.hash(data: $0)) }
    }

    /// Returns the possible paths, each without and with the query.
    ///
    /// These are the path after a proxy's prefix, the path as received, and the path with the prefix that a proxy
    /// removed.
    private static func paths(of request: APIRequest, _ publicURL: String?) -> [String] {
        var paths = [request.path]
        if let prefix = publicURL.flatMap({ URLComponents(string: $0)?.path }), !prefix.isEmpty,
            !request.path.hasPrefix(prefix + "/")
        {
            paths.append(prefix + request.path)
        }
        for start in ["/database/1/", "/device/1/", "/push/1/"] {
            guard let found = request.path.firstRange(of: start), found.lowerBound > request.path.startIndex else {
                continue
            }
            paths.insert(String(request.path[found.lowerBound...]), at: 0)
        }
        guard let query = request.query else { return paths }
        return paths + paths.map { "\($0)?\(query)" }
    }

    private static let writes: Set<String> = [
        "modify", "accept", "create", "register", "upload", "rereference",
    ]

    private static func isWrite(_ request: APIRequest) -> Bool {
        guard request.method == .post, let last = request.path.split(separator: "/").last else { return false }
        return writes.contains(String(last))
    }
}

/// The signed writes of the recent past, for replay protection.
///
/// Bounded for each key.
package struct SeenSignatures {
    /// The maximum number of entries per key; at its rate limit, a key cannot exceed it within the window.
    package static let perKey = 16_384

    private struct Seen {
        var dates: [UInt128: Timestamp] = [:]
        /// Writes signed at or before this time are refused, because their fingerprints have been evicted.
        var forgottenUpTo: Timestamp?
    }

    private var keys: [String: Seen] = [:]

    package init() {}

    /// Records one write of `key`; returns `false` if it is, or may be, a replay.
    ///
    /// `window`: the maximum age of a date.
    package mutating func isNew(
        _ fingerprint: UInt128,
        signed date: Timestamp,
        by key: String,
        at now: Timestamp,
        window: Duration
    ) -> Bool {
        var seen = keys.removeValue(forKey: key) ?? Seen()
        defer { keys[key] = seen }
        // A date that far in the future is never accepted, so the clock was set back; the store detects replays from
        // before.
        if let limit = seen.forgottenUpTo, limit - now > window { seen.forgottenUpTo = nil }
        if let limit = seen.forgottenUpTo, date <= limit { return false }
        guard seen.dates[fingerprint] == nil else { return false }
        if seen.dates.count >= Self.perKey {
            seen.dates = seen.dates.filter { now - $0.value <= window && $0.value - now <= window }
            if seen.dates.count >= Self.perKey / 2 {
                let middle = seen.dates.values.sorted()[seen.dates.count / 2]
                seen.dates = seen.dates.filter { $0.value > middle }
                seen.forgottenUpTo = middle
                guard date > middle else { return false }
            }
        }
        seen.dates[fingerprint] = date
        return true
    }
}

/// Parses the date of a signed request: ISO 8601 with a time zone and without fractions.
///
/// See Wire.md, "Server-to-server keys".
enum SignatureDate {
    /// Parses `2026-01-25T22:15:43Z`; returns `nil` for other formats.
    ///
    /// The seconds and the separators between the numbers may be omitted; `+01:00`, `+0100` or `+01` may replace `Z`.
    static func parse(_ text: String) -> Timestamp? {
        let bytes = Array(text.utf8)
        guard let mark = bytes.firstIndex(of: UInt8(ascii: "T")),
            let zone = bytes[mark...].firstIndex(where: { !$0.isASCIIDigit && !":T".utf8.contains($0) }),
            let date = numbers(bytes[..<mark], of: [4, 2, 2], between: "-"),
            let clock = numbers(bytes[(mark + 1)..<zone], of: [2, 2, 2], between: ":")
                ?? numbers(bytes[(mark + 1)..<zone], of: [2, 2], between: ":"),
            (1...12).contains(date[1]), (1...31).contains(date[2]), clock[0] < 24, clock[1] < 60,
            let offset = offset(bytes[zone...])
        else { return nil }
        let second = clock.count == 3 ? clock[2] : 0
        guard second < 61 else { return nil }
        let days = daysSince1970(year: date[0], month: date[1], day: date[2])
        let seconds = ((days * 24 + clock[0]) * 60 + clock[1]) * 60 + second - offset
        return Timestamp(milliseconds: Int64(seconds) * 1000)
    }

    /// Parses numbers with these digit counts, either all separated by `mark` or none.
    private static func numbers(_ bytes: ArraySlice<UInt8>, of lengths: [Int], between mark: Unicode.Scalar) -> [Int]? {
        var pieces = bytes.split(separator: UInt8(ascii: mark), omittingEmptySubsequences: false)
        if pieces.count == 1 {
            var rest = bytes
            pieces = lengths.map { length in
                defer { rest = rest.dropFirst(length) }
                return rest.prefix(length)
            }
            guard rest.isEmpty else { return nil }
        }
        guard pieces.map(\.count) == lengths else { return nil }
        let found = pieces.compactMap { number($0) }
        return found.count == lengths.count ? found : nil
    }

    private static func offset(_ bytes: ArraySlice<UInt8>) -> Int? {
        guard let sign = bytes.first else { return nil }
        if sign == UInt8(ascii: "Z") { return bytes.count == 1 ? 0 : nil }
        guard sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-") else { return nil }
        let rest = Array(bytes.dropFirst())
        let digits = rest.count == 5 && rest[2] == UInt8(ascii: ":") ? rest[0..<2] + rest[3..<5] : rest[...]
        guard digits.count == 4 || digits.count == 2, let hours = number(digits.prefix(2)),
            let minutes = digits.count == 4 ? number(digits.suffix(2)) : 0, hours < 24, minutes < 60
        else { return nil }
        return (sign == UInt8(ascii: "-") ? -1 : 1) * (hours * 3600 + minutes * 60)
    }

    private static func number(_ digits: some Sequence<UInt8>) -> Int? {
        var value = 0
        for digit in digits {
            guard digit.isASCIIDigit else { return nil }
            value = value * 10 + Int(digit - 0x30)
        }
        return value
    }

    /// Converts a date of the proleptic Gregorian calendar; counts from March so that the leap day comes last.
    private static func daysSince1970(year: Int, month: Int, day: Int) -> Int {
        let year = month <= 2 ? year - 1 : year
        let era = (year >= 0 ? year : year - 399) / 400
        let yearOfEra = year - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }
}

/// A store for one signed request, whose first write also stores the signature.
///
/// After a restart, the relay detects replays by the stored signatures, because those in memory are lost. See
/// Reliability.md, "Tokens".
final class SignedStore: Store {
    private let store: any Store
    private let signature: UsedSignature
    private let isTaken = Atomic(false)

    init(_ store: any Store, _ signature: UsedSignature) {
        self.store = store
        self.signature = signature
    }

    var currentSchema: Schema { store.currentSchema }

    func epochs(of owner: UserID) throws(RelayError) -> Epochs { try store.epochs(of: owner) }

    func read<Result>(_ body: (any StoreReader) throws(RelayError) -> Result) throws(RelayError) -> Result {
        try store.read(body)
    }

    func query<Result>(_ body: (any StoreReader) throws(RelayError) -> Result) async throws(RelayError) -> Result {
        try await store.query(body)
    }

    func publicQuery<Result>(
        _ body: (any StoreReader) throws(RelayError) -> Result
    ) async throws(RelayError) -> Result {
        try await store.publicQuery(body)
    }

    func write(_ write: any StoreWrite) {
        let isFirst = !isTaken.exchange(true, ordering: .relaxed)
        store.write(isFirst ? SignedWrite(write, signature) : write)
    }
}

/// A write that is performed only if its signature is new.
// Unchecked because of `refusal`: only the store's writer accesses it, one thread at a time.
private final class SignedWrite: StoreWrite, @unchecked Sendable {
    var user: UserID? { write.user }
    var owner: UserID? { write.owner }
    var prefetch: Prefetch { write.prefetch }
    private let write: any StoreWrite
    private let signature: UsedSignature
    // If the write is decided twice, the last time counts.
    private var refusal: RelayError?

    init(_ write: any StoreWrite, _ signature: UsedSignature) {
        self.write = write
        self.signature = signature
    }

    func run(in writer: any StoreWriter) {
        // Before the write decides: a refused write must not be replayed either.
        do throws(RelayError) {
            refusal = try writer.keep(signature) ? nil : CredentialRefusal.failed.relayError(redirectURL: nil)
        } catch {
            refusal = error
        }
        if refusal == nil { write.run(in: writer) }
    }

    func finish(_ failure: RelayError?) { write.finish(failure ?? refusal) }
}
