import Crypto
import Foundation
import HTTPTypes
import Records

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
struct SeenSignatures {
    /// The maximum number of entries per key; at its rate limit, a key cannot exceed it within the window.
    static let perKey = 16_384

    private struct Seen {
        var dates: [UInt128: Timestamp] = [:]
        /// Writes signed at or before this time are refused, because their fingerprints have been evicted.
        var forgottenUpTo: Timestamp?
    }

    private var keys: [String: Seen] = [:]

    /// Records one write of `key`; returns `false` if it is, or may be, a replay.
    ///
    /// `window`: the maximum age of a date.
    mutating func isNew(
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
