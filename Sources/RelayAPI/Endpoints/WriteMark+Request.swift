import Crypto
import Records
import RelayCore
import Wire

/// How a client names a write that it may have to send again: by `operationID` beside `operations`.
extension WriteMark {
    /// The name, where the client gives one.
    static func id(in body: JSONValue) throws -> String? {
        guard let value = body["operationID"] else { return nil }
        let id = try value.string()
        guard NameRules.isRecordName(id) else {
            throw RelayError.badRequest("operationID must be 1 to 255 printable ASCII characters.")
        }
        return id
    }

    /// The name for a record that the client leaves nameless: the same when it sends the write again.
    ///
    /// `count` counts the nameless ones of the write.
    static func recordName(_ id: String, _ count: Int, of caller: Caller) -> String {
        let seed = Array("\(caller.user?.recordName ?? "")|\(count)|\(id)".utf8)
        return UUIDText.make(Array(SHA256.hash(data: seed).prefix(16))).uppercased()
    }

    /// `nil` for an anonymous caller: strangers cannot tell their writes apart.
    init?(_ id: String, of request: ModifyRecords) {
        guard let user = request.database.caller.user else { return nil }
        var print = Fingerprint()
        print.add(request.zone.owner.recordName)
        print.add(request.zone.zoneName)
        print.add(request.database.scope.pathName)
        print.add(request.isAtomic ? "atomic" : "")
        for operation in request.operations {
            print.add(operation.kind.rawValue)
            print.add(operation.name)
            print.add(operation.record.changeTag ?? "")
            // In any order: a client may keep its fields in a table that has none.
            print.sum &+= operation.record.fields.reduce(0) { sum, field in
                var own = Fingerprint()
                own.add(operation.record.name(of: field))
                own.add(operation.record.value(of: field)?.rawBytes ?? [])
                return sum &+ own.sum
            }
        }
        self.init(user: user, id: id, print: print.sum)
    }

    /// Likewise.
    init?(_ id: String, of request: ModifyZones) {
        guard let user = request.database.caller.user else { return nil }
        var print = Fingerprint()
        print.add("zones")
        for operation in request.operations {
            switch operation {
            case .create(let zone): print.add("create \(zone.zoneName)")
            case .delete(let zone, let loss): print.add("delete \(loss.rawValue) \(zone.zoneName)")
            }
        }
        self.init(user: user, id: id, print: print.sum)
    }

    /// Likewise.
    init?(_ id: String, of request: MoveRecords) {
        guard let user = request.database.caller.user else { return nil }
        var print = Fingerprint()
        print.add("move")
        for zone in [request.source, request.destination] {
            print.add(zone.owner.recordName)
            print.add(zone.zoneName)
        }
        print.add("\(request.makesDestination) \(request.deletesSource) \(request.items == nil)")
        for item in request.items ?? [] {
            print.add(item.name)
            print.add(item.changeTag ?? "")
        }
        self.init(user: user, id: id, print: print.sum)
    }
}

/// FNV-1a with 64 bits: the same in every process, and against mistakes, not malice; a client can only deceive itself.
private struct Fingerprint {
    var sum: UInt64 = 0xCBF2_9CE4_8422_2325

    mutating func add(_ bytes: some Sequence<UInt8>) {
        for byte in bytes { sum = (sum ^ UInt64(byte)) &* 0x100_0000_01B3 }
        sum = (sum ^ 0xFF) &* 0x100_0000_01B3
    }

    mutating func add(_ text: String) { add(text.utf8) }
}
