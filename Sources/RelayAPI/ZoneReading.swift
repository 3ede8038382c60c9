import Records
import Wire

/// A zone as requests of one head name it, and as answers do.
///
/// Whoever writes mostly does so to one zone, and names it in the same letters each time.
final class ZoneReading: Sendable {
    /// The JSON that names it.
    private let given: [UInt8]
    private let caller: UserID?
    let id: ZoneID
    /// The JSON that answers name it by.
    let text: [UInt8]

    init(_ given: JSONValue, _ id: ZoneID, of caller: UserID?) {
        self.given = Array(given.rawBytes)
        self.caller = caller
        self.id = id
        var writer = JSONWriter()
        ZoneIDCodec.write(id, to: &writer)
        text = writer.bytes
    }

    /// Whether this is what the caller names.
    func isMeant(by json: JSONValue, of caller: UserID?) -> Bool {
        self.caller == caller && json.hasText(given)
    }
}
