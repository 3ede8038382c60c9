import Crypto
import Foundation
import Records
import RelayAPI
import RelayCore
import RelayStore

/// Zones, and the change feed of one: authors, times and sizes, but no record contents.
extension ConsoleAPI {
    static let zones: [ConsoleRoute] = [
        .get("zones") { call in
            let home = try call.home()
            let limit = call.number("limit", in: 1...200, else: 50)
            let before = call["before"].flatMap { UInt64($0) } ?? .max
            let words = call["words"] ?? ""
            let rows =
                try call.parts.stores.existingStore(of: home)?.survey { survey throws(RelayError) in
                    try survey.zones(with: words, before: before, limit: limit)
                } ?? []
            return ["zones": rows.map { ZoneAnswer($0) }]
        },
        .post("zones/delete") { call in
            let home = try call.home()
            let wanted = try call.body(NamedZone.self).id
            guard !wanted.isDefault else { throw ConsoleRefusal("The default zone cannot be deleted.") }
            try call.confirmInProduction(home)
            guard let store = try call.parts.stores.existingStore(of: home) else { throw RelayError.zoneNotFound }
            try await store.write { writer throws(RelayError) in
                guard let zone = try writer.zone(wanted) else { throw .zoneNotFound }
                try writer.deleteZone(zone, by: "")
            }
            try call.note("zone.delete", "\(wanted)", in: home)
            return Done()
        },
        .post("zones/create") { call in
            let home = try call.home()
            let wanted = try call.body(NamedZone.self).id
            guard try call.parts.accounts.accounts(of: [wanted.owner], in: home)[wanted.owner] != nil else {
                throw ConsoleRefusal("There is no user \(wanted.owner) in this environment.", status: 404)
            }
            try call.confirmInProduction(home)
            try await call.changeZone("create", wanted, in: home)
            try call.note("zone.create", "\(wanted)", in: home)
            return Done()
        },
        .post("zones/reset") { call in
            let home = try call.home()
            let wanted = try call.body(NamedZone.self).id
            guard home.environment == .development else {
                throw ConsoleRefusal("A zone can be reset in development only. In production, delete it.")
            }
            guard !wanted.isDefault else { throw ConsoleRefusal("The default zone cannot be reset.") }
            try await call.changeZone("delete", wanted, in: home)
            try await call.changeZone("create", wanted, in: home)
            try call.note("zone.reset", "\(wanted)", in: home)
            return Done()
        },
    ]

    static let changes: [ConsoleRoute] = [
        .get("changes") { call in
            let home = try call.home()
            let zone = try NamedZone(call).id
            guard let store = try call.parts.stores.existingStore(of: home) else { throw RelayError.zoneNotFound }
            let limit = call.number("limit", in: 1...200, else: 50)
            return try store.survey { survey throws(RelayError) in
                guard let found = try survey.zone(zone) else { throw .zoneNotFound }
                return FeedAnswer(
                    token: FeedAnswer.token(of: found, epoch: store.epoch),
                    lastChange: found.lastChange,
                    moreComing: false,
                    records: try survey.tail(of: found, limit: limit).map { FeedAnswer.Row($0, in: zone) }
                )
            }
        },
        .post("changes/since") { call in
            let home = try call.home()
            let ask = try call.body(TokenQuestion.self)
            guard let store = try call.parts.stores.existingStore(of: home) else { throw RelayError.zoneNotFound }
            let owner = Caller(.user(ask.zone.id.owner), deviceID: "")
            return try store.read { reader throws(RelayError) in
                var rows: [FeedAnswer.Row] = []
                let page = try ZoneChanges(
                    zone: ask.zone.id,
                    of: DatabaseAddress(scope: .private, caller: owner),
                    token: ask.syncToken.isEmpty ? nil : ask.syncToken,
                    limit: min(max(ask.limit ?? 200, 1), 200)
                ).read(from: reader, epochs: store.epochs) { rows.append(FeedAnswer.Row($0, in: ask.zone.id)) }
                return FeedAnswer(
                    token: page.token.encoded,
                    lastChange: page.zone.lastChange,
                    moreComing: page.moreComing,
                    records: rows
                )
            }
        },
    ]

    struct NamedZone: Decodable {
        var zoneName: String
        var owner: String

        var id: ZoneID { ZoneID(zoneName, owner: UserID(owner)) }

        init(_ call: ConsoleCall) throws {
            guard let zone = call["zone"], let owner = call["owner"] else {
                throw ConsoleRefusal("Choose a zone first.")
            }
            zoneName = zone
            self.owner = owner
        }
    }

    private struct TokenQuestion: Decodable {
        var zone: NamedZone
        var syncToken: String
        var limit: Int?
    }

    private struct ZoneAnswer: Encodable {
        var zoneName: String
        var owner: String
        var database: String
        var records: Int
        var isMore: Bool
        var recordBytes: Int64
        var assetBytes: Int64
        var lastChange: UInt64
        var modified: Int64?
        var sharing: String
        var tracksChanges: Bool

        init(_ row: StoreSurvey.ZoneRow) {
            zoneName = row.id.zoneName
            owner = row.id.owner.recordName
            database = row.id.owner == Zone.publicOwner ? "public" : "private"
            records = min(row.records, StoreSurvey.countBound)
            isMore = row.records > StoreSurvey.countBound
            recordBytes = row.use.records
            assetBytes = row.use.assets
            lastChange = row.lastChange
            modified = row.modified?.milliseconds
            sharing =
                switch row.sharing {
                case .nothing: "none"
                case .everything: "zone"
                case .hierarchies: "hierarchies"
                }
            tracksChanges = !row.id.isDefault
        }
    }

    /// A page of a zone's feed without record contents.
    private struct FeedAnswer: Encodable {
        struct Row: Encodable {
            /// A short hash that distinguishes records; a private record's name may be as sensitive as its contents.
            var mark: String
            var recordType: String
            var change: UInt64
            var changeTag: String
            var isDeleted: Bool
            var modified: Int64
            var modifiedBy: String
            var device: String
            var bytes: Int

            init(_ record: StoredRecord, in zone: ZoneID) {
                let text = "\(zone)/\(record.name)"
                mark = Hex.encode(SHA256.hash(data: Array(text.utf8)).prefix(4))
                recordType = record.type
                change = record.change
                changeTag = record.changeTag
                isDeleted = record.isDeleted
                modified = record.modified.at.milliseconds
                modifiedBy = record.modified.by.recordName
                device = record.modified.device.text
                bytes = record.fields.count
            }
        }

        var token: String
        var lastChange: UInt64
        var moreComing: Bool
        var records: [Row]

        static func token(of zone: Zone, epoch: UInt64) -> String {
            ChangeToken(kind: .zone, log: zone.identity, epoch: epoch, position: zone.lastChange).encoded
        }
    }
}

extension ConsoleCall {
    /// Changes a zone with the owner's own operation, so that the owner's devices and all participants are notified.
    fileprivate func changeZone(_ verb: String, _ zone: ZoneID, in home: ContainerEnvironment) async throws {
        struct Change: Encodable {
            struct Name: Encodable { var zoneName: String }
            struct Zone: Encodable { var zoneID: Name }
            struct Operation: Encodable { var operationType: String, zone: Zone }
            var operations: [Operation]
        }
        struct Answer: Decodable {
            struct Zone: Decodable { var serverErrorCode: String?, reason: String? }
            var zones: [Zone]
        }
        let name = Change.Name(zoneName: zone.zoneName)
        let answer: Answer = try await ask(
            "zones/modify",
            Change(operations: [.init(operationType: verb, zone: .init(zoneID: name))]),
            for: zone.owner,
            in: home
        )
        guard let refused = answer.zones.first(where: { $0.serverErrorCode != nil }) else { return }
        throw ConsoleRefusal(refused.reason ?? "The relay refused the request.", status: 409)
    }
}
