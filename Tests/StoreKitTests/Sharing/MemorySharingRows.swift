import Records
import RelayCore
import StoreKit
import Testing
import Wire

/// The rows of one zone in memory, which record the calls that a decision makes.
final class MemorySharingRows: SharingRows, NumberSource {
    struct ShareRow {
        var key: ShareKey
        var link: String
        var zone: Int64
        var settings: ShareSettings
        var participants: [Share.Participant] = []
        var requests = ShareRequests(requesters: [], blocked: [])
        var lastChange: UInt64 = 0
        var hasAliases = false
    }

    static let owner = UserID("_alice")
    var zone = Zone(number: 1, id: ZoneID("Notes", owner: owner), identity: 9, lastChange: 0)
    /// The records, deleted ones included.
    var records: [String: StoredRecord] = [:]
    var shareRows: [Int64: ShareRow] = [:]
    /// The entries, by share and name.
    var entries: [Int64: [String: HierarchyEntry]] = [:]
    var aliasRows: [ShareAlias] = []
    var accessRows: [UserID: ZoneAccess] = [:]
    var references: Set<StoredReference> = []
    var uses: Set<AssetUse> = []
    private(set) var calls: [String] = []
    private var lastNumber: UInt64 = 0
    private var lastIdentity: UInt64 = 100

    func resetCalls() { calls = [] }
    private func count(_ call: String = #function) { calls.append(String(call.prefix { $0 != "(" })) }

    // MARK: Numbers

    func takeChangeNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    var drawIdentity: () -> UInt64 {
        {
            self.lastIdentity += 1
            return self.lastIdentity
        }
    }

    // MARK: Records

    private func outline(_ record: StoredRecord) -> RecordOutline {
        RecordOutline(
            name: record.name,
            type: record.type,
            parent: record.parent,
            change: record.change,
            share: record.share,
            cover: cover(of: record.name)
        )
    }

    func cover(of name: String) -> Int64? { entries.first { $0.value[name]?.state == .present }?.key }

    private var live: [StoredRecord] { records.values.filter { !$0.isDeleted }.sorted { $0.name < $1.name } }

    func outlines(of names: [String], in zone: Int64) -> [RecordOutline] {
        count()
        return live.filter { names.contains($0.name) }.map(outline)
    }

    func children(of parents: [String], in zone: Int64) -> [RecordOutline] {
        count()
        return live.filter { $0.parent.map(parents.contains) ?? false }.map(outline)
    }

    func childNames(of parents: [String], in zone: Int64) -> [ParentLink] {
        count()
        return live.compactMap { record in
            record.parent.flatMap { parents.contains($0) ? ParentLink(name: record.name, parent: $0) : nil }
        }
    }

    func ancestors(of names: [String], in zone: Int64) -> [ParentLink] {
        count()
        var (links, rest): ([String: String], [String]) = ([:], names)
        while let name = rest.popLast() {
            guard links[name] == nil, let parent = records[name]?.parent else { continue }
            links[name] = parent
            rest.append(parent)
        }
        return links.map { ParentLink(name: $0.key, parent: $0.value) }
    }

    func covers(of names: [String], in zone: Int64) -> [String: Int64] {
        count()
        return names.reduce(into: [:]) { $0[$1] = cover(of: $1) }
    }

    // MARK: Hierarchies and shares

    func write(_ entries: [HierarchyEntry], in zone: Int64) {
        count("writeEntries")
        for entry in entries { self.entries[entry.share, default: [:]][entry.name] = entry }
    }

    func advance(_ lastChanges: [Int64: UInt64]) {
        count()
        for (share, change) in lastChanges {
            let last = shareRows[share]?.lastChange ?? 0
            shareRows[share]?.lastChange = max(last, change)
        }
    }

    func shares(withLinks shortGUIDs: [String]) -> [String: ShareKey] {
        count("sharesWithLinks")
        return shareRows.values.reduce(into: [:]) { found, row in
            if shortGUIDs.contains(row.link) { found[row.link] = row.key }
        }
    }

    func shares(of zone: Int64) -> [ShareKey] {
        count("sharesOfZone")
        return shareRows.values.map(\.key)
    }

    func insert(_ shares: [NewShare], in zone: Int64) -> [Int64] {
        count("insertShares")
        return shares.map { share in
            let number = (shareRows.keys.max() ?? 0) + 1
            shareRows[number] = ShareRow(
                key: ShareKey(number: number, root: share.root),
                link: share.shortGUID,
                zone: zone,
                settings: share.settings
            )
            return number
        }
    }

    func delete(shares: [Int64]) {
        count("deleteShares")
        for share in shares {
            shareRows[share] = nil
            entries[share] = nil
            aliasRows.removeAll { $0.share == share }
        }
    }

    func write(_ settings: [ShareSettings]) {
        count("writeSettings")
        for settings in settings { shareRows[settings.share]?.settings = settings }
    }

    func write(participants: [Int64: [Share.Participant]]) {
        count("writeParticipants")
        for (share, people) in participants { shareRows[share]?.participants = people }
    }

    func write(requests: [Int64: ShareRequests]) {
        count("writeRequests")
        for (share, requests) in requests { shareRows[share]?.requests = requests }
    }

    func writeSharing(of zone: Zone) {
        count()
        self.zone.sharing = zone.sharing
    }

    // MARK: Access

    private var allMemberships: [ShareMembership] {
        shareRows.values.sorted { $0.key.number < $1.key.number }.flatMap { row in
            row.participants.compactMap { participant in
                guard participant.hasAccepted, participant.permission != .none, let user = participant.user else {
                    return nil
                }
                return ShareMembership(
                    user: user,
                    zone: row.zone,
                    share: row.key.number,
                    root: row.key.root,
                    permission: participant.permission,
                    lastChange: row.lastChange,
                    hasAliases: row.hasAliases
                )
            }
        }
    }

    func memberships(of users: [UserID], in zone: Int64?) -> [ShareMembership] {
        count("membershipsOfUsers")
        return allMemberships.filter { users.contains($0.user) }
    }

    func memberships(ofUsersIn shares: [Int64], in zone: Int64) -> [ShareMembership] {
        count("membershipsOfUsersInShares")
        let users = Set(allMemberships.filter { shares.contains($0.share) }.map(\.user))
        return allMemberships.filter { users.contains($0.user) }
    }

    func access(to zones: [Int64]) -> [ZoneAccess] {
        count()
        return accessRows.values.filter { !$0.hasEnded }.sorted { $0.user.recordName < $1.user.recordName }
    }

    func write(_ access: [ZoneAccess]) {
        count("writeAccess")
        for access in access { accessRows[access.user] = access }
    }

    // MARK: Aliases

    private func withCovers(_ aliases: [ShareAlias]) -> [ShareAlias] {
        aliases.map { ShareAlias(share: $0.share, shown: $0.shown, kept: $0.kept, shownCover: cover(of: $0.shown)) }
    }

    func aliases(of shares: [Int64], in zone: Int64) -> [ShareAlias] {
        count("aliasesOfShares")
        return withCovers(aliasRows.filter { shares.contains($0.share) })
    }

    func aliases(showing names: [String], in zone: Int64) -> [ShareAlias] {
        count("aliasesShowing")
        return withCovers(aliasRows.filter { names.contains($0.shown) })
    }

    func aliases(keeping names: [String], in zone: Int64) -> [ShareAlias] {
        count("aliasesKeeping")
        return withCovers(aliasRows.filter { names.contains($0.kept) })
    }

    func write(_ aliases: [ShareAlias]) {
        count("writeAliases")
        for alias in aliases {
            aliasRows.removeAll { $0.share == alias.share && $0.shown == alias.shown }
            aliasRows.append(alias)
            shareRows[alias.share]?.hasAliases = true
        }
    }

    // MARK: References and assets

    func insert(_ references: [StoredReference], in zone: Int64) {
        count("insertReferences")
        self.references.formUnion(references)
    }

    func delete(_ references: [StoredReference], in zone: Int64) {
        count("deleteReferences")
        self.references.subtract(references)
    }

    func used(among hashes: [AssetHash], in zone: Int64) -> Set<AssetHash> {
        count()
        return Set(uses.map(\.hash)).intersection(hashes)
    }

    func insert(_ uses: [AssetUse], in zone: Int64) {
        count("insertUses")
        self.uses.formUnion(uses)
    }

    func delete(_ uses: [AssetUse], in zone: Int64) {
        count("deleteUses")
        self.uses.subtract(uses)
    }
}

// MARK: Writes of tests

extension MemorySharingRows {
    /// Returns a record with a new change number.
    func record(_ name: String, in parent: String? = nil, by user: UserID = owner) -> StoredRecord {
        let device = DeviceFingerprint(bits: 1)
        let stamp = StoredRecord.Stamp(at: Timestamp(milliseconds: 1), by: user, device: device)
        return StoredRecord(
            name: name,
            type: "Note",
            change: takeChangeNumber(),
            created: stamp,
            modified: stamp,
            parent: parent,
            share: records[name]?.share,
            fields: FieldsJSON.empty
        )
    }

    func tombstone(_ name: String) -> StoredRecord {
        var record = record(name)
        record.isDeleted = true
        record.share = nil
        return record
    }

    /// Writes records in one write and updates the entries.
    @discardableResult
    func put(_ new: [StoredRecord], newHierarchies: [ShareKey] = []) throws -> HierarchyUpdate {
        let replaced = records.filter { name, _ in new.contains { $0.name == name } }
        for record in new { records[record.name] = record }
        resetCalls()
        return try HierarchyUpdate.run(
            for: new,
            replacing: replaced,
            newHierarchies: newHierarchies,
            covers: [:],
            in: zone,
            rows: self,
            numbers: self
        )
    }

    /// Shares the hierarchy of a root; returns the share's number.
    @discardableResult
    func share(_ root: String, with users: [UserID] = []) throws -> Int64 {
        let participants = users.map {
            Share.Participant(id: $0.recordName, permission: .readWrite, hasAccepted: true, user: $0)
        }
        let share = Share(root: root, shortGUID: "link-\(root)", publicPermission: .none, participants: participants)
        let change = ShareUpdate.Change(name: "of-\(root)", change: takeChangeNumber(), old: nil, new: share)
        let update = try update([change])
        var marked = record(root, in: records[root]?.parent)
        marked.shareReference = ShareReference(shortGUID: share.shortGUID, record: "of-\(root)")
        try put([marked], newHierarchies: update.newHierarchies)
        return try #require(shareRows.first { $0.value.link == share.shortGUID }?.key)
    }

    func update(_ changes: [ShareUpdate.Change]) throws -> ShareUpdate {
        var zone = zone
        return try ShareUpdate.run(for: changes, in: &zone, rows: self, numbers: self, token: Self.token)
    }

    static func token(_ identity: UInt64, _ position: UInt64) -> ChangeToken {
        ChangeToken(kind: .zone, log: identity, epoch: 1, position: position)
    }

    /// The names of the records that a share covers.
    func names(in share: Int64) -> Set<String> {
        Set((entries[share] ?? [:]).values.filter { $0.state == .present }.map(\.name))
    }
}
