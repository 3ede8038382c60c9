import Crypto
import Records
import RelayCore
import Wire

/// The idempotency key of a request: the member `operationID`.
extension IdempotencyKey {
    /// Returns the member `operationID`; `nil` if there is none.
    static func id(in body: JSONValue) throws -> String? {
        guard let value = body["operationID"] else { return nil }
        let id = try value.string()
        guard NameRules.isRecordName(id) else {
            throw RelayError.badRequest("operationID must be 1 to 255 printable ASCII characters.")
        }
        return id
    }

    /// Returns the name of a record for which the client sends none; the same when the client retries the write.
    ///
    /// `count` is the number of the record among the unnamed ones of the write.
    static func recordName(_ id: String, _ count: Int, of caller: Caller) -> String {
        let seed = Array("\(caller.user?.recordName ?? "")|\(count)|\(id)".utf8)
        return UUIDText.make(Array(SHA256.hash(data: seed).prefix(16))).uppercased()
    }

    /// Creates the key of a record write; `nil` for an anonymous caller, because such callers are indistinguishable.
    init?(_ id: String, of request: ModifyRecords) {
        guard let user = request.database.caller.user else { return nil }
        var fingerprint = Fingerprint()
        fingerprint.add(part: request.zone.owner.recordName)
        fingerprint.add(part: request.zone.zoneName)
        fingerprint.add(part: request.database.scope.pathName)
        fingerprint.add(part: request.isAtomic ? "atomic" : "")
        for operation in request.operations {
            fingerprint.add(part: operation.kind.rawValue)
            fingerprint.add(part: operation.name)
            fingerprint.add(part: operation.record.changeTag ?? "")
            fingerprint.add(besideFieldsOf: operation.record)
            // Independent of their order: a client may encode its fields in a different order when it retries.
            fingerprint.sum &+= operation.record.fields.reduce(0) { sum, field in
                var own = Fingerprint()
                own.add(part: operation.record.name(of: field))
                own.add(part: operation.record.value(of: field)?.rawBytes ?? [])
                return sum &+ own.sum
            }
        }
        self.init(user: user, id: id, fingerprint: fingerprint.sum)
    }

    /// Creates the key of a zone write; `nil` for an anonymous caller.
    init?(_ id: String, of request: ModifyZones) {
        guard let user = request.database.caller.user else { return nil }
        var fingerprint = Fingerprint()
        fingerprint.add(part: "zones")
        for operation in request.operations {
            switch operation {
            case .create(let zone): fingerprint.add(part: "create \(zone.zoneName)")
            case .delete(let zone, let reason):
                fingerprint.add(part: "delete \(reason.rawValue) \(zone.zoneName)")
            case .leave(let zone): fingerprint.add(part: "leave \(zone.owner.recordName) \(zone.zoneName)")
            }
        }
        self.init(user: user, id: id, fingerprint: fingerprint.sum)
    }

    /// Creates the key of a move; `nil` for an anonymous caller.
    init?(_ id: String, of request: MoveRecords) {
        guard let user = request.database.caller.user else { return nil }
        var fingerprint = Fingerprint()
        fingerprint.add(part: "move")
        for zone in [request.source, request.destination] {
            fingerprint.add(part: zone.owner.recordName)
            fingerprint.add(part: zone.zoneName)
        }
        fingerprint.add(part: "\(request.makesDestination) \(request.deletesSource) \(request.items == nil)")
        for item in request.items ?? [] {
            fingerprint.add(part: item.name)
            fingerprint.add(part: item.changeTag ?? "")
        }
        self.init(user: user, id: id, fingerprint: fingerprint.sum)
    }
}

/// A client that constructs two requests with the same fingerprint harms only itself.
extension Fingerprint {
    fileprivate mutating func add(part bytes: some Sequence<UInt8>) {
        add(bytes)
        // A byte that does not occur in UTF-8.
        add(UInt8(0xFF))
    }

    fileprivate mutating func add(part text: String) { add(part: text.utf8) }

    fileprivate mutating func add(besideFieldsOf record: RecordInput) {
        add(part: record.recordType ?? "")
        if let parent = record.parent { add(part: "parent \(parent ?? "")") }
        if record.createsShortGUID { add(part: "createShortGUID") }
        if let share = record.share { add(share) }
    }

    private mutating func add(_ share: ShareInput) {
        if let root = share.root { add(part: "root \(root.name) \(root.changeTag ?? "")") }
        if let permission = share.publicPermission { add(part: permission.word) }
        if let participants = share.participants { add(each: participants.map(\.fingerprint)) }
        guard let requests = share.accessRequests else { return }
        add(part: "requests \(requests.isAllowed.map { "\($0)" } ?? "")")
        for (word, names) in [("-", requests.denied), ("x", requests.blocked), ("o", requests.unblocked)] {
            add(each: names.map { "\(word) \($0)" })
        }
    }

    /// Adds the parts independent of their order.
    private mutating func add(each parts: [String]) {
        add(part: "\(parts.count)")
        sum = parts.reduce(sum) { $0 &+ Fingerprint(of: $1).sum }
    }
}

extension ParticipantInput {
    fileprivate var fingerprint: String {
        let parts = [
            id, role?.word, permission?.word, isRemoved ? "removed" : nil, isOneTimeLink ? "anybody" : nil,
            emailAddress,
            phoneNumber, userRecordName,
        ]
        return parts.map { $0 ?? "" }.joined(separator: "|")
    }
}
