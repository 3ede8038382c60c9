import Records
import Wire

/// A zone ID together with its JSON encodings in requests and responses.
///
/// A client usually writes to one zone and encodes its ID identically each time, so the ID is parsed only once.
final class ZoneReading: Sendable {
    /// The JSON in the request.
    private let given: [UInt8]
    private let caller: UserID?
    let id: ZoneID
    /// The JSON in responses.
    let text: [UInt8]

    init(_ given: JSONValue, _ id: ZoneID, of caller: UserID?) {
        self.given = Array(given.rawBytes)
        self.caller = caller
        self.id = id
        var writer = JSONWriter()
        ZoneIDCodec.write(id, to: &writer)
        text = writer.bytes
    }

    /// Returns whether the caller's JSON is the same as in the earlier request.
    func isMeant(by json: JSONValue, of caller: UserID?) -> Bool {
        self.caller == caller && json.hasText(given)
    }
}
