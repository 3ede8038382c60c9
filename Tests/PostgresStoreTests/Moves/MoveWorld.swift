#if Postgres
    import Records
    import RelayCore
    import Testing
    import Wire

    /// A container with data of every kind, written and read through the protocols of stores.
    struct MoveWorld {
        static let alice = UserID("_00000000000000000000000000000001")
        static let bob = UserID("_00000000000000000000000000000002")
        static let carol = UserID("_00000000000000000000000000000003")
        static let notes = ZoneID("Notes", owner: alice)
        static let lists = ZoneID("Lists", owner: alice)
        static let trash = ZoneID("Trash", owner: alice)
        static let diary = ZoneID("Diary", owner: bob)
        static let common = ZoneID(ZoneID.defaultName, owner: Zone.publicOwner)

        let store: any Store

        /// A record before it has a change number.
        struct Draft: Sendable {
            var name: String
            var type = "Note"
            var fields: [String: FieldValue] = [:]
            var parent: String?
            var isDeleted = false
            var share: Share?
            var shareReference: ShareReference?

            init(_ name: String, parent: String? = nil) {
                self.name = name
                self.parent = parent
                fields["title"] = .string("The title of \(name), 'quoted' \"twice\" \u{1F4DD}\\n")
            }

            static func deleted(_ name: String) -> Draft {
                var draft = Draft(name)
                (draft.isDeleted, draft.fields) = (true, [:])
                return draft
            }

            func record(_ change: UInt64, over before: StoredRecord?, by user: UserID) -> StoredRecord {
                let stamp = StoredRecord.Stamp(
                    at: Timestamp(milliseconds: Int64(change)),
                    by: user,
                    device: DeviceFingerprint(bits: .max - 1)
                )
                var record = StoredRecord(
                    name: name,
                    type: isDeleted ? before?.type ?? type : type,
                    change: change,
                    created: before?.created ?? stamp,
                    modified: stamp,
                    parent: parent,
                    fields: FieldsJSON.encode(
                        fields.sorted { $0.key < $1.key }.map { .init(name: $0.key, value: $0.value) }
                    ),
                    isDeleted: isDeleted
                )
                record.shareReference = shareReference
                record.sharing = share
                return record
            }
        }

        // MARK: Writing

        func put(_ drafts: [Draft], in id: ZoneID = notes, by user: UserID = alice) async throws {
            _ = try await store.write(touching: id.owner) { writer throws(RelayError) in
                guard let zone = try writer.zone(id) else { throw .zoneNotFound }
                let before = try writer.records(named: drafts.map(\.name), in: zone)
                let records = drafts.map { $0.record(writer.takeChangeNumber(), over: before[$0.name], by: user) }
                try writer.put(records, replacing: before, in: zone, by: "phone")
            }
        }

        func share(_ root: String?, with users: [UserID], in id: ZoneID) async throws {
            let name = root.map { "share of \($0)" } ?? Share.zoneWideName
            let link = "\(id.zoneName) \(name)"
            var draft = Draft(name)
            draft.type = Share.recordType
            draft.isDeleted = users.isEmpty
            draft.shareReference = ShareReference(shortGUID: link, record: name)
            let invited = Share.Participant(id: "mail", permission: .readOnly, contact: .email("eve@example.org"))
            let joined = users.map {
                Share.Participant(id: "of \($0)", permission: .readWrite, hasAccepted: true, user: $0)
            }
            if !users.isEmpty { draft.share = Share(root: root, shortGUID: link, participants: joined + [invited]) }
            try await put([draft], in: id)
        }

        private func makeZone(_ id: ZoneID) async throws {
            _ = try await store.write(touching: id.owner) { writer throws(RelayError) in
                try writer.makeZone(id, by: "phone")
            }
        }

        private func deleteZone(_ id: ZoneID) async throws {
            try await store.write(touching: id.owner) { writer throws(RelayError) in
                guard let zone = try writer.zone(id) else { throw .zoneNotFound }
                try writer.deleteZone(zone, by: "phone")
            }
        }

        static func asset(_ number: UInt8) -> FieldValue {
            let hash = AssetHash([UInt8](repeating: number, count: AssetHash.byteCount))
            return .asset(Asset(fileChecksum: hash?.checksum ?? "", size: Int64(number) * 100))
        }

        static let query = SubscribedQuery(
            recordType: "Note",
            json: Array(#"{"recordType":"Note"}"#.utf8),
            zone: nil,
            firesOn: [.create, .update],
            firesOnce: true
        )

        /// Writes everything that a device may find.
        func fill() async throws {
            _ = try await store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
                try writer.define([
                    "Note": RecordType(fields: [
                        "title": .init(.scalar(.string)), "photo": .init(.scalar(.asset)),
                        "list": .init(.scalar(.reference)),
                    ]),
                    "Other": RecordType(fields: ["count": .init(.scalar(.int64))]),
                ])
            }
            for zone in [Self.notes, Self.lists, Self.trash, Self.diary] { try await makeZone(zone) }
            try await put((0..<40).map { Draft("note \($0)") })
            var photo = Draft("photo", parent: "note 1")
            photo.fields["photo"] = Self.asset(1)
            photo.fields["list"] = .reference(Reference(recordName: "note 2", action: .deleteSelf))
            try await put([photo, .deleted("note 3"), .deleted("note 4")])
            try await put([Draft("root"), Draft("child", parent: "root"), Draft("alone")], in: Self.lists)
            try await share("root", with: [Self.bob], in: Self.lists)
            try await share(nil, with: [Self.bob, Self.carol], in: Self.notes)
            try await put([Draft("dear")], in: Self.diary, by: Self.bob)
            try await put([Draft("lost")], in: Self.trash)
            try await deleteZone(Self.trash)
            try await put((0..<20).map { Draft("public \($0)") }, in: Self.common, by: Self.carol)
            try await store.write(touching: Self.alice) { writer throws(RelayError) in
                try writer.put(
                    [
                        Subscription(id: "watch", kind: .query(Self.query), notificationInfo: Array("{}".utf8)),
                        Subscription(id: "all", kind: .database),
                    ],
                    of: Self.alice,
                    in: .private
                )
                try writer.keep(
                    IdempotencyRecord(fingerprint: .max - 5, completedOperations: [7, 1]),
                    as: "key",
                    by: Self.alice
                )
            }
            try await store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
                try writer.addTransfer(1_234, in: CalendarMonth(of: Timestamp(milliseconds: 0)))
                _ = try writer.keep(
                    UsedSignature(
                        fingerprint: 9,
                        signed: Timestamp(milliseconds: 5),
                        oldest: Timestamp(milliseconds: 0)
                    )
                )
            }
        }

        /// Changes something of every kind.
        func change() async throws {
            try await put([Draft("note 5"), Draft("new"), .deleted("note 6")])
            var photo = Draft("photo", parent: "note 7")
            photo.fields["photo"] = Self.asset(2)
            try await put([photo])
            try await put([Draft("grandchild", parent: "child"), .deleted("alone")], in: Self.lists)
            try await share(nil, with: [Self.carol], in: Self.notes)
            try await put([.deleted("public 3"), .deleted("public 4"), Draft("public 5")], in: Self.common)
            try await makeZone(Self.trash)
            try await put([Draft("found")], in: Self.trash)
            try await store.write(touching: Self.alice) { writer throws(RelayError) in
                try writer.deleteSubscriptions(ids: ["all"], of: Self.alice, in: .private)
                try writer.keep(IdempotencyRecord(fingerprint: 6), as: "second", by: Self.alice)
            }
        }

        // MARK: Reading

        /// The tokens of every database and zone that a device may have.
        struct Tokens {
            var zones: [String: String] = [:]
            var databases: [String: String] = [:]
        }

        private struct View {
            var user: UserID
            var scope: DatabaseScope

            var address: DatabaseAddress { DatabaseAddress(scope: scope, caller: Caller(.user(user), deviceID: "")) }
            var name: String { "\(user.recordName) \(scope)" }
        }

        private static let views = [alice, bob, carol].flatMap { user in
            [View(user: user, scope: .private), View(user: user, scope: .shared)]
        }

        /// Returns what each user's devices find since their tokens, and the next tokens.
        func news(since tokens: Tokens = Tokens()) throws -> (lines: [String], tokens: Tokens) {
            var (lines, next) = ([String](), Tokens())
            for view in Self.views {
                let page = try store.read { reader throws(RelayError) in
                    try DatabaseChanges(database: view.address, token: tokens.databases[view.name], limit: 1_000)
                        .read(from: reader) { user throws(RelayError) in try store.epochs(of: user) }
                }
                next.databases[view.name] = page.token.encoded
                for zone in page.zones {
                    lines.append("\(view.name) \(zone.isDeleted ? "-" : "")\(zone.id.zoneName)")
                    guard !zone.isDeleted else { continue }
                    let key = "\(view.name) \(zone.id)"
                    let (found, token) = try records(zone.id, of: view, since: tokens.zones[key])
                    lines += found.map { "\(key) \($0)" }
                    next.zones[key] = token
                }
            }
            next.zones.merge(tokens.zones) { new, _ in new }
            return (lines, next)
        }

        private func records(_ zone: ZoneID, of view: View, since token: String?) throws -> ([String], String) {
            try store.read { reader throws(RelayError) in
                var lines: [String] = []
                let page = try ZoneChanges(zone: zone, of: view.address, token: token, limit: 1_000)
                    .read(from: reader, epochs: try store.epochs(of: zone.owner)) { record in
                        lines.append(
                            "\(record.isDeleted ? "-" : "")\(record.name) \(record.change) \(record.parent ?? "") "
                                + "\(record.created.by) \(record.modified.at.milliseconds) "
                                + String(decoding: record.fields, as: UTF8.self)
                        )
                    }
                return (lines, page.token.encoded)
            }
        }

        /// Returns what the store says of everything that no feed shows.
        func rest() throws -> [String] {
            try store.read { reader throws(RelayError) in
                var lines: [String] = []
                for user in [Self.alice, Self.bob, Self.carol, Zone.publicOwner] {
                    lines.append("use \(try reader.storageUse(of: user))")
                    for (scope, subscription) in try reader.subscriptions(of: user) {
                        lines.append("\(user) \(scope) \(subscription.id) \(subscription.notificationInfo ?? [])")
                    }
                }
                let schema = try reader.schema
                for (name, type) in schema.types.sorted(by: { $0.key < $1.key }) {
                    lines.append("\(name) \(type.fields.keys.sorted()) \(schema.version)")
                }
                lines.append("users \(try reader.userCount)")
                lines.append("transfer \(try reader.transfer(in: CalendarMonth(of: Timestamp(milliseconds: 0))))")
                guard let common = try reader.zone(Self.common), let notes = try reader.zone(Self.notes) else {
                    throw .zoneNotFound
                }
                let names = (0..<20).map { "public \($0)" }
                lines += try reader.records(named: names, in: common, withFields: true).keys.sorted()
                try reader.visitReferences(to: ["note 1", "note 2", "note 7"], in: notes) {
                    lines.append("\($0)")
                    return .next
                }
                let hashes = Set([1, 2].compactMap { AssetHash([UInt8](repeating: $0, count: AssetHash.byteCount)) })
                lines.append(
                    "uses \(try reader.assetUses(of: hashes, in: notes).map { "\($0.key.hex) \($0.value)" }.sorted())"
                )
                lines.append("\(try reader.share(ofLink: "Notes \(Share.zoneWideName)")?.record ?? "no share")")
                return lines
            }
        }

        /// Returns the outcome that is kept under a key of Alice's.
        func outcome(_ key: String) async throws -> IdempotencyRecord? {
            try await store.write(touching: Self.alice) { writer throws(RelayError) in
                try writer.idempotencyRecord(key, by: Self.alice)
            }
        }
    }
#endif
