import Crypto
import Foundation
import HTTPTypes
import Records

/// A server-to-server signature and all the texts it may speak for.
///
/// See Wire.md, "Server-to-server keys".
struct SignedRequest {
    var date: Timestamp
    var signature: P256.Signing.ECDSASignature
    /// What clients in the field sign for this one request: they differ in the query, the path prefix and the empty body.
    var messages: [[UInt8]]
    /// Whether answering it twice would change something twice.
    var isWrite: Bool

    /// `nil` if a header is missing or malformed; `publicURL` is where clients reach the relay, if that is known.
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

    /// The signature's first number.
    ///
    /// Negating the second gives another valid signature, so only this one tells whether the same signing is seen
    /// again.
    var fingerprint: UInt128 { signature.rawRepresentation.prefix(16).reduce(0) { $0 << 8 | UInt128($1) } }

    func isMade(with key: P256.Signing.PublicKey) -> Bool {
        messages.contains { key.isValidSignature(signature, for: SHA256.hash(data: $0)) }
    }

    /// The path after a proxy's prefix, as it came, and behind the prefix that a proxy has taken away; each without the query
    /// and with it.
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

/// Which signed writes were seen lately, so that a recorded one cannot be sent again.
///
/// Bounded for each key.
struct SeenSignatures {
    /// Entries kept for one key; at its rate limit a key cannot fill them within the window.
    static let perKey = 16_384

    private struct Seen {
        var dates: [UInt128: Timestamp] = [:]
        /// Writes signed at or before it are refused: it is no longer known which of them came already.
        var forgottenUpTo: Timestamp?
    }

    private var keys: [String: Seen] = [:]

    /// Notes one write of `key`; `false` if it was, or may have been, here before.
    ///
    /// `window`: how old a date may be.
    mutating func isNew(
        _ fingerprint: UInt128,
        signed date: Timestamp,
        by key: String,
        at now: Timestamp,
        window: Duration
    ) -> Bool {
        var seen = keys.removeValue(forKey: key) ?? Seen()
        defer { keys[key] = seen }
        // Nothing so far ahead would be taken: the clock has been put back, and the store knows what came then.
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
