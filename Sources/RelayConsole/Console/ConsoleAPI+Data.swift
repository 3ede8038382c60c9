import Crypto
import Foundation
import Records
import RelayAPI
import RelayCore

/// Zones, and the change feed of one: authors, times and sizes, but no record contents.
extension ConsoleAPI {
    static let zones: [ConsoleRoute] = [
        .get("zones") { call in
            let home = try call.home()
            let limit = call.number("limit", in: 1...200, else: 50)
            let before = call["before"].flatMap { UInt64($0) } ?? .max
            let words = call["words"] ?? ""
            let rows =
                try call.parts.stores.survey(home) { survey throws(RelayError) in
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
            try await store.write(touching: wanted.owner, prefetch: Prefetch([wanted: []])) {
                writer throws(RelayError) in
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
            let answer = try call.parts.stores.survey(home) { survey throws(RelayError) in
                guard let found = try survey.zone(zone) else { throw .zoneNotFound }
                return FeedAnswer(
                    token: FeedAnswer.token(of: found, epoch: try store.epoch(of: zone.owner)),
                    lastChange: found.lastChange,
                    moreComing: false,
                    records: try survey.tail(of: found, limit: limit).map { FeedAnswer.Row($0, in: zone) }
                )
            }
            guard let answer else { throw RelayError.zoneNotFound }
            return answer
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
                ).read(from: reader, epochs: try store.epochs(of: ask.zone.id.owner)) {
                    rows.append(FeedAnswer.Row($0, in: ask.zone.id))
                }
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

        init(_ row: SurveyedZone) {
            zoneName = row.id.zoneName
            owner = row.id.owner.recordName
            database = row.id.owner == Zone.publicOwner ? "public" : "private"
            records = min(row.records, SurveyedZone.countBound)
            isMore = row.records > SurveyedZone.countBound
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

/// The shares and their participants.
///
/// An operator can remove participants, change their permissions and stop a share. Operators cannot give anybody access
/// to private records; only owners can.
extension ConsoleAPI {
    static let sharing: [ConsoleRoute] = [
        .get("shares") { call in
            let home = try call.home()
            let rows =
                try call.parts.stores.survey(home) { survey throws(RelayError) in
                    try survey.shares(limit: 200, id: nil)
                } ?? []
            return ["shares": rows.map { ShareAnswer($0) }]
        },
        .post("shares/stop") { call in
            let edit = try ConsoleShareEdit(call)
            try await edit.stop()
            try edit.note("share.stop")
            return Done()
        },
        .post("shares/remove") { call in
            let edit = try ConsoleShareEdit(call)
            let who = try edit.participant()
            try await edit.keep { $0.id == who.id ? nil : $0.permission }
            try edit.note("share.remove", detail: who.user?.recordName ?? "invited")
            return Done()
        },
        .post("shares/permission") { call in
            let edit = try ConsoleShareEdit(call)
            let permission = try edit.permission()
            guard edit.ask.participant != nil else {
                try await edit.open(to: permission)
                try edit.note("share.permission", detail: "anybody with the link: \(permission.word)")
                return Done()
            }
            let who = try edit.participant()
            try await edit.keep { $0.id == who.id ? permission : $0.permission }
            try edit.note("share.permission", detail: "\(who.user?.recordName ?? "invited"): \(permission.word)")
            return Done()
        },
    ]

    private struct ShareAnswer: Encodable {
        struct Participant: Encodable {
            var id: String
            /// `nil` for an open invitation; only the owner may see its address.
            var user: String?
            var role: String
            var permission: String
            var hasAccepted: Bool
        }

        var id: Int64
        var zone: String
        var owner: String
        var isZoneWide: Bool
        var publicPermission: String
        var participants: [Participant]

        init(_ row: SurveyedShare) {
            id = row.id
            zone = row.zone.zoneName
            owner = row.zone.owner.recordName
            isZoneWide = row.isZoneWide
            publicPermission = row.publicPermission.word
            participants = row.participants.map {
                Participant(
                    id: $0.id,
                    user: $0.user?.recordName,
                    role: $0.role.word,
                    permission: $0.permission.word,
                    hasAccepted: $0.hasAccepted
                )
            }
        }
    }
}

/// One share that an operator changes with the owner's own operations, so that all participants are notified as usual.
private struct ConsoleShareEdit {
    struct Ask: Decodable {
        var id: Int64
        var participant: String?
        /// The permission as on the wire.
        var permission: String?
    }

    let ask: Ask
    private let call: ConsoleCall
    private let home: ContainerEnvironment
    private let row: SurveyedShare

    init(_ call: ConsoleCall) throws {
        self.call = call
        home = try call.home()
        let ask = try call.body(Ask.self)
        let rows =
            try call.parts.stores.survey(home) { survey throws(RelayError) in
                try survey.shares(limit: 1, id: ask.id)
            } ?? []
        guard let row = rows.first else { throw ConsoleRefusal("This share no longer exists.", status: 404) }
        try call.confirmInProduction(home)
        self.ask = ask
        self.row = row
    }

    func participant() throws -> Share.Participant {
        guard let found = row.participants.first(where: { $0.id == ask.participant }) else {
            throw ConsoleRefusal("This participant no longer exists.", status: 404)
        }
        return found
    }

    func permission() throws -> Share.Permission {
        let all: [Share.Permission] = [.none, .readOnly, .readWrite]
        guard let found = all.first(where: { $0.word == ask.permission }) else {
            throw ConsoleRefusal("Choose a permission.")
        }
        guard found != .none || ask.participant == nil else { throw ConsoleRefusal("Remove the participant instead.") }
        guard ask.participant != nil || row.publicPermission != .none else {
            throw ConsoleRefusal("Only the owner can make a share public.")
        }
        return found
    }

    func stop() async throws {
        try await modify(.init(operationType: "forceDelete", record: .init(recordName: row.recordName)))
    }

    /// Sets each participant's permission; removes the participants for whom `permission` returns `nil`.
    func keep(_ permission: (Share.Participant) -> Share.Permission?) async throws {
        let participants = row.participants.compactMap { one in
            permission(one).map { Change.Participant(participantId: one.id, permission: $0.word) }
        }
        try await update { $0.participants = participants }
    }

    func open(to permission: Share.Permission) async throws {
        try await update { $0.publicPermission = permission.word }
    }

    func note(_ action: String, detail: String = "") throws {
        try call.note(action, "\(row.zone)", in: home, detail: detail)
    }

    private struct Zone: Encodable { var zoneName: String }

    private struct Look: Encodable {
        struct Record: Encodable { var recordName: String }
        var zoneID: Zone
        var records: [Record]
    }

    private struct Change: Encodable {
        struct Participant: Encodable { var participantId: String, permission: String }
        struct Record: Encodable {
            var recordName: String
            var recordType: String?
            var recordChangeTag: String?
            var fields: [String: String]?
            var participants: [Participant]?
            var publicPermission: String?
        }
        struct Operation: Encodable { var operationType: String, record: Record }
        var zoneID: Zone
        var operations: [Operation]
    }

    private struct Answer: Decodable {
        struct Record: Decodable { var recordChangeTag: String? }
        var records: [Record]
    }

    private var zone: Zone { Zone(zoneName: row.zone.zoneName) }

    private func update(_ change: (inout Change.Record) -> Void) async throws {
        let found = try await ask("records/lookup", Look(zoneID: zone, records: [.init(recordName: row.recordName)]))
        var record = Change.Record(
            recordName: row.recordName,
            recordType: "cloudkit.share",
            recordChangeTag: found.recordChangeTag,
            fields: [:]
        )
        change(&record)
        try await modify(.init(operationType: "update", record: record))
    }

    private func modify(_ operation: Change.Operation) async throws {
        _ = try await ask("records/modify", Change(zoneID: zone, operations: [operation]))
    }

    /// Calls a wire operation as the owner and returns the only record of its response.
    private func ask(_ operation: String, _ body: some Encodable) async throws -> Answer.Record {
        let answer: Answer = try await call.ask(operation, body, for: row.zone.owner, in: home)
        guard let record = answer.records.first else {
            throw ConsoleRefusal("This share no longer exists.", status: 404)
        }
        return record
    }
}

/// Statistics about assets: number, sizes, unused ones; never their content or owners.
extension ConsoleAPI {
    static let assets: [ConsoleRoute] = [
        .get("assets") { try AssetsAnswer($0) },
        .post("assets/collect") { call in
            let home = try call.home()
            guard try call.parts.stores.existingStore(of: home) != nil else { return ["removed": 0] }
            let limit = call.parts.time.now() + (.zero - call.parts.facts.unusedAssetLifetime)
            let removed = try await call.parts.stores.removeUnusedAssets(of: home, before: limit)
            try call.note("assets.collect", "\(removed) deleted", in: home)
            return ["removed": removed]
        },
    ]

    private struct AssetsAnswer: Encodable {
        /// The assets of one size class.
        struct Size: Encodable {
            /// The upper bound in bytes; `nil` for the class of the largest.
            var upTo: Int64?
            var count: Int
            var bytes: Int64
        }

        var count: Int
        var bytes: Int64
        var unused: Int
        var unusedBytes: Int64
        var missing: Int
        var sizes: [Size]
        /// The sizes of the ten largest assets, in descending order.
        var largest: [Int64]

        init(_ call: ConsoleCall) throws {
            let files = try call.parts.home.upkeep.files(of: try call.home())
            let all = files?.assets ?? []
            let unusedOnes = all.filter { !$0.isUsed }
            count = all.count
            bytes = all.reduce(0) { $0 + $1.bytes }
            unused = unusedOnes.count
            unusedBytes = unusedOnes.reduce(0) { $0 + $1.bytes }
            missing = files?.missing.count ?? 0
            var rest = all
            sizes = [10_000, 100_000, 1_000_000, 10_000_000, nil].map { (bound: Int64?) in
                let own = rest.filter { asset in bound.map { asset.bytes <= $0 } ?? true }
                rest.removeAll { asset in bound.map { asset.bytes <= $0 } ?? true }
                return Size(upTo: bound, count: own.count, bytes: own.reduce(0) { $0 + $1.bytes })
            }
            largest = all.map(\.bytes).sorted(by: >).prefix(10).map { $0 }
        }
    }
}
