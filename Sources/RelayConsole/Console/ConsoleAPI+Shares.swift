import Records
import RelayAPI
import RelayCore
import RelayStore

/// The shares and their participants.
///
/// An operator can remove participants, change their permissions and stop a share. Operators cannot give anybody access
/// to private records; only owners can.
extension ConsoleAPI {
    static let sharing: [ConsoleRoute] = [
        .get("shares") { call in
            let home = try call.home()
            let rows =
                try call.parts.stores.existingStore(of: home)?.survey { survey throws(RelayError) in
                    try survey.shares(limit: 200)
                } ?? []
            return ["shares": rows.map { ShareAnswer($0) }]
        },
        .post("shares/stop") { call in
            let visit = try ShareVisit(call)
            try await visit.stop()
            try visit.note("share.stop")
            return Done()
        },
        .post("shares/remove") { call in
            let visit = try ShareVisit(call)
            let who = try visit.participant()
            try await visit.keep { $0.id == who.id ? nil : $0.permission }
            try visit.note("share.remove", detail: who.user?.recordName ?? "invited")
            return Done()
        },
        .post("shares/permission") { call in
            let visit = try ShareVisit(call)
            let permission = try visit.permission()
            guard visit.ask.participant != nil else {
                try await visit.open(to: permission)
                try visit.note("share.permission", detail: "anybody with the link: \(permission.word)")
                return Done()
            }
            let who = try visit.participant()
            try await visit.keep { $0.id == who.id ? permission : $0.permission }
            try visit.note("share.permission", detail: "\(who.user?.recordName ?? "invited"): \(permission.word)")
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

        init(_ row: StoreSurvey.ShareRow) {
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
private struct ShareVisit {
    struct Ask: Decodable {
        var id: Int64
        var participant: String?
        /// The permission as on the wire.
        var permission: String?
    }

    let ask: Ask
    private let call: ConsoleCall
    private let home: ContainerEnvironment
    private let row: StoreSurvey.ShareRow

    init(_ call: ConsoleCall) throws {
        self.call = call
        home = try call.home()
        let ask = try call.body(Ask.self)
        let rows =
            try call.parts.stores.existingStore(of: home)?.survey { survey throws(RelayError) in
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
