import Foundation
import GRDB
import Records
import SyncCore
import Testing
import ZoneKit
import ZoneMirror

private typealias RecordState = ZoneMirror.RecordState

/// The states of records and of unsent changes: every state with every event.
@Suite struct RecordStateTests {
    private static let sources = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "../../Sources/ZoneMirror").standardizedFileURL

    /// `StoreTables` only creates the tables.
    @Test("each of the mirror's tables is written in one file") func writers() throws {
        let writing = /(?:INTO|UPDATE|DELETE FROM) (mirror_[a-z]+)/
        var writers: [String: Set<String>] = [:]
        for file in try FileManager.default.subpathsOfDirectory(atPath: Self.sources.path)
        where file.hasSuffix(".swift") && file != "Store/StoreTables.swift" {
            let text = try String(contentsOf: Self.sources.appending(path: file), encoding: .utf8)
            for match in text.matches(of: writing) { writers[String(match.1), default: []].insert(file) }
        }
        #expect(writers.filter { $0.value.count > 1 }.isEmpty)
        #expect(writers.count == 21)
        for table in ["mirror_record", "mirror_move", "mirror_outbox"] {
            #expect(writers[table] == ["Store/RecordTable.swift"])
        }
    }

    // MARK: The page

    @Test("RecordStates.md has the transitions of the code") func page() throws {
        let url = Self.sources.appending(path: "Documentation/RecordStates.md")
        let page = try String(contentsOf: url, encoding: .utf8)
        let records = Self.table(RecordState.self, RecordEvent.self) { state, event in
            let next = state.after(event)
            let marks = next.effects.map { String($0.rawValue.prefix(1)).uppercased() }.joined()
            return (next.state == state ? "·" : next.state.rawValue) + (marks.isEmpty ? "" : " \(marks)")
        }
        let changes = Self.table(ChangeState.self, ChangeEvent.self) { state, event in
            state.after(event) == state ? "·" : state.after(event).rawValue
        }
        for table in [records, changes] { #expect(page.contains(table), "RecordStates.md lacks:\n\(table)") }
        for event in RecordEvent.allCases.map(\.rawValue) {
            #expect(page.components(separatedBy: "`\(event)`").count > 2)
        }
        for state in RecordState.allCases.map(\.rawValue) { #expect(page.contains("| `\(state)` |")) }
    }

    private static func table<State: CaseIterable & RawRepresentable, Event: CaseIterable & RawRepresentable>(
        _: State.Type,
        _: Event.Type,
        _ cell: (State, Event) -> String
    ) -> String where State.RawValue == String, Event.RawValue == String {
        var lines = [
            "| event | " + State.allCases.map(\.rawValue).joined(separator: " | ") + " |",
            "|" + String(repeating: " --- |", count: State.allCases.count + 1),
        ]
        for event in Event.allCases {
            lines.append("| `\(event.rawValue)` | \(State.allCases.map { cell($0, event) }.joined(separator: " | ")) |")
        }
        return lines.joined(separator: "\n")
    }

    // MARK: Rules

    @Test("a version is known only after it has arrived", arguments: RecordEvent.allCases)
    func versions(_ event: RecordEvent) {
        for state in RecordState.allCases where !state.hasVersion {
            let next = state.after(event).state
            let arrives = event == .received || event == .receivedLocked || event == .hidden
            #expect(!next.hasVersion || arrives, "\(state)")
        }
    }

    @Test("an original is stored when its object leaves it, and forgotten when it is not to be deleted")
    func originals() {
        for state in RecordState.allCases {
            for event in RecordEvent.allCases {
                let (next, effects) = (state.after(event).state, state.after(event).effects)
                if !state.isMoving, next.isMoving { #expect(effects.contains(.keepOriginal), "\(state) \(event)") }
                // After these, the original is deleted: its object is in the new zone, or gone.
                let isDeleted: Set<RecordEvent> = [.received, .receivedLocked, .superseded, .removed, .hidden]
                if state.isMoving, !next.isMoving, !isDeleted.contains(event) {
                    #expect(effects.contains(.forgetOriginal), "\(state) \(event)")
                }
            }
        }
    }

    // MARK: The stored form

    /// A store with one record "a" of the zone "home", whose object has left the zone "former".
    private struct World {
        let db: Database
        let home: KnownZone
        let former: KnownZone
        let other: KnownZone
        let table: RecordTable

        init(_ db: Database, _ state: RecordState) throws {
            try StoreTables.create(db, name: "")
            self.db = db
            home = try KnownZone.make(db, ZoneID("home"))
            former = try KnownZone.make(db, ZoneID("former"))
            other = try KnownZone.make(db, ZoneID("other"))
            table = RecordTable(db)
            guard state != .absent else { return }
            try db.execute(
                sql: """
                    INSERT INTO mirror_record(zone, name, oid, entity, type, tag, parent, share, state)
                    VALUES (?, 'a', 'a', 'Item', 'CD_Item', ?, 'p', 's', ?);
                    INSERT INTO mirror_outbox(place, oid, entity, op, version, held)
                    VALUES (1, 'a', 'Item', 'save', 0, 'waiting');
                    """,
                arguments: [home.id, state.hasVersion ? "t1" : nil, state.rawValue]
            )
            guard state.isMoving else { return }
            try db.execute(
                sql: "INSERT INTO mirror_move VALUES (?, 'a', 'a', 0, ?, 't1')",
                arguments: [former.id, home.id]
            )
        }

        var known: KnownRecord? { get throws { try KnownRecord.find(db, oid: "a") } }

        /// Returns `false` if the event cannot happen in this state.
        func perform(_ event: RecordEvent) throws -> Bool {
            let object = ObjectID(store: StoreID(URL(filePath: "/a")), entity: "Item", name: "a")
            let original = RecordTable.Original(zone: former.id, name: "a", tag: "t9")
            switch event {
            case .addressed: try table.address(zone: home.id, name: "a", oid: "a", entity: "Item", type: "CD_Item")
            case .createSent:
                if try known == nil { _ = try perform(.addressed) }
                try table.createSent("a")
            case .createRefused: try table.changeRefused("a", .save)
            case .received, .receivedLocked:
                var record = Record(id: RecordID("a", in: home.zone), type: "CD_Item", changeTag: "t2")
                if event == .receivedLocked {
                    record.fields["f"] = .bytes(Array("zc1".utf8) + [UInt8](repeating: 0, count: 36))
                    record.encryptedFields = ["f"]
                }
                try table.store(record, zone: home.id, oid: "a", entity: "Item", fields: Data(), seen: 0)
            case .reassigned: try table.reassign(object, to: other.id, type: "CD_Item")
            case .moved: try table.moved("a", from: former.id, to: home.id)
            case .superseded, .contentMissing, .vanished, .returned, .originalSaved, .originalGone, .expected,
                .zoneEnded, .hidden, .removed:
                guard let known = try known else { return false }
                switch event {
                case .superseded: try table.superseded(known)
                case .contentMissing: try table.contentMissing(known, isPublic: false)
                case .vanished: try table.vanished(known)
                case .returned:
                    guard known.state.isMoving else { return false }
                    try table.reassign(object, to: former.id, type: "CD_Item")
                case .originalSaved: try table.originalSaved(original, of: known)
                case .originalGone: try table.originalGone(original, of: known)
                case .expected: try table.expect(known, in: other)
                case .zoneEnded: try table.zoneEnded(known, movingTo: other.id)
                case .hidden: try table.hide(known)
                default: try table.remove(known)
                }
            }
            return true
        }
    }

    @Test("the store performs every transition with its effects", arguments: RecordEvent.allCases)
    func storedRecords(_ event: RecordEvent) throws {
        for state in RecordState.allCases {
            try DatabaseQueue().write { db in
                let world = try World(db, state)
                guard try world.perform(event) else { return }
                let next = state.after(event)
                let known = try world.known
                #expect(known?.state ?? .absent == next.state, "\(state)")
                #expect(known?.tag != nil || known?.state.hasVersion != true || event == .hidden, "\(state)")
                #expect(known?.tag == nil || next.state.hasVersion, "\(state)")
                let originals = try Row.fetchAll(db, sql: "SELECT zone, tag FROM mirror_move ORDER BY zone")
                let isKept = state.isMoving && !next.effects.contains(.forgetOriginal)
                if next.effects.contains(.keepOriginal) {
                    let place = event == .originalSaved ? world.former.id : world.home.id
                    let tag = event == .originalSaved ? "t9" : state.hasVersion ? "t1" : nil
                    #expect(originals == [["zone": place, "tag": tag]], "\(state)")
                } else {
                    #expect(originals.count == (isKept ? 1 : 0), "\(state)")
                }
                if next.effects.contains(.dropParent) { #expect(known?.parent == nil, "\(state)") }
                #expect((try State.text(db, .awaitsRecords) != nil) == next.effects.contains(.lookUp), "\(state)")
                guard state != .absent, event != .createRefused else { return }
                let change = try OutboxRow.find(db, "a")
                let isQueued = next.effects.contains(.queueSave)
                #expect((change?.version != 0) == isQueued, "\(state)")
                let isReady = isQueued || next.effects.contains(.releaseChange)
                #expect(change?.state == (isReady ? .ready : .waiting), "\(state)")
            }
        }
    }

    @Test("an object that returns to its original's zone keeps the record there", arguments: [false, true])
    func returningObjects(_ hasSentCopy: Bool) throws {
        try DatabaseQueue().write { db in
            let world = try World(db, .synced)
            let object = ObjectID(store: StoreID(URL(filePath: "/a")), entity: "Item", name: "a")
            try world.table.reassign(object, to: world.other.id, type: "CD_Item")
            if hasSentCopy { try world.table.createSent("a") }
            try world.table.reassign(object, to: world.home.id, type: "CD_Item")
            #expect(try ShareMoves.removable(db).originals.isEmpty)
            #expect(try ShareMoves.pendingMoves(db).isEmpty)
            let known = try #require(try world.known)
            #expect(known.zone == world.home.id && known.name == "a" && known.state == .outdated)
            // The answer to the copy comes after all: it is deleted where nothing else needs it.
            guard hasSentCopy else { return }
            try world.table.originalSaved(.init(zone: world.other.id, name: "a", tag: "t2"), of: known)
            #expect(try ShareMoves.removable(db).originals.mapValues { $0.map(\.name) } == [world.other.zone: ["a"]])
        }
    }

    @Test("the store performs every transition of a change", arguments: ChangeEvent.allCases)
    func storedChanges(_ event: ChangeEvent) throws {
        for state in ChangeState.allCases {
            try DatabaseQueue().write { db in
                try StoreTables.create(db, name: "")
                let table = RecordTable(db)
                switch state {
                case .none: break
                case .refused: try Self.refuse(db)
                case .ready, .waiting, .noZone, .noTable, .parked:
                    try table.queue("a", entity: "Item", .save)
                    let sql = "UPDATE mirror_outbox SET held = ?, account = ?"
                    let isHeld = state != .ready && state != .parked
                    let account = state == .parked ? "_a" : nil
                    try db.execute(sql: sql, arguments: [isHeld ? state.rawValue : nil, account])
                }
                switch event {
                case .edited: try table.queue("a", entity: "Item", .save)
                case .dependencyMissing, .zoneRefused, .entityMissing: try table.hold("a", event, "", code: nil)
                case .dependencyArrived, .zoneFreed, .entityReturned: try table.release(event)
                case .released: try table.release("a")
                case .confirmed: try table.confirm("a", version: 1)
                case .earlierConfirmed: try table.confirm("a", version: 0)
                case .refused: try Self.refuse(db)
                case .discarded: try table.discardChange(of: "a")
                case .decided: try Refusals.decided(db, 1)
                case .userLeft: try table.switchUser(from: "_a", to: "_b")
                case .userReturned: try table.switchUser(from: nil, to: "_a")
                }
                let isRefused = try Refusals.exist(db, for: "a")
                let now = try OutboxRow.find(db, "a")?.state ?? (isRefused ? .refused : .none)
                #expect(now == state.after(event), "\(state)")
            }
        }
    }

    private static func refuse(_ db: Database) throws {
        try Refusals.add(
            db,
            oid: "a",
            entity: "Item",
            operation: .save,
            mine: [:],
            pairs: nil,
            error: .init(code: 1, message: ""),
            at: Date()
        )
    }
}
