import Records
import RelayCore

/// Deletes a user: disables the account, leaves other users' shares, deletes all zones, then deletes the account.
///
/// Uses the user's own operations, so that all participants are notified.
struct UserRemoval {
    private let call: ConsoleCall
    private let account: Account

    init(_ call: ConsoleCall, _ account: Account) {
        self.call = call
        self.account = account
    }

    private struct Nothing: Codable {}
    private struct Zone: Codable { var zoneName: String, ownerRecordName: String? }
    private struct Zones: Decodable {
        struct One: Decodable { var zoneID: Zone }
        var zones: [One]
    }
    private struct ZoneChange: Encodable {
        struct One: Encodable { var zoneID: Zone }
        struct Operation: Encodable { var operationType = "delete", zone: One }
        var operations: [Operation]
    }
    private struct RecordChange: Encodable {
        struct One: Encodable { var recordName: String }
        struct Operation: Encodable { var operationType = "forceDelete", record: One }
        var zoneID: Zone?
        var operations: [Operation]
    }
    private struct ShareSearch: Encodable {
        struct One: Encodable { var zoneID: Zone, desiredRecordTypes = ["cloudkit.share"], syncToken: String? }
        var zones: [One]
    }
    private struct SharesFound: Decodable {
        struct Record: Decodable { var recordName: String, deleted: Bool? }
        struct Page: Decodable { var records: [Record], moreComing: Bool?, syncToken: String? }
        var zones: [Page]
    }

    /// Deletes the user; returns the number of deleted or left zones.
    func run() async throws -> Int {
        var count = 0
        // Otherwise a signed-in device could write to zones that have already been deleted.
        try call.parts.accounts.setDisabled(true, of: account.id)
        for (home, profile) in try call.parts.accounts.profiles(of: account.id) {
            let user = profile.user
            for zone in try await zones(of: user, in: home, database: "shared") {
                count += 1
                try await leave(zone, user, in: home)
            }
            for zone in try await zones(of: user, in: home) where zone.zoneName != ZoneID.defaultName {
                count += 1
                try await delete(zone, of: user, in: home)
            }
        }
        for (home, profile) in try call.parts.accounts.profiles(of: account.id) {
            try await clearUserRecord(of: profile.user, in: home)
            if try await deleteDefault(of: profile.user, in: home) { count += 1 }
        }
        try call.parts.accounts.removeAccount(account.id)
        return count
    }

    /// Removes the fields that apps have set; the record itself belongs to the relay.
    private func clearUserRecord(of user: UserID, in home: ContainerEnvironment) async throws {
        struct Change: Encodable {
            struct One: Encodable { var recordName: String, recordType = "Users", fields = [String: String]() }
            struct Operation: Encodable { var operationType = "forceReplace", record: One }
            var operations: [Operation]
        }
        let body = Change(operations: [.init(record: .init(recordName: user.recordName))])
        let _: Nothing = try await call.ask("records/modify", body, for: user, in: home, database: "public")
    }

    /// Leaves a shared zone like any participant: by deleting the shares in it.
    private func leave(_ zone: Zone, _ user: UserID, in home: ContainerEnvironment) async throws {
        var (names, token, hasMore): ([String], String?, Bool) = ([], nil, true)
        while hasMore {
            let search = ShareSearch(zones: [.init(zoneID: zone, syncToken: token)])
            let found: SharesFound = try await call.ask("changes/zone", search, for: user, in: home, database: "shared")
            guard let page = found.zones.first else { break }
            names += page.records.filter { $0.deleted != true }.map(\.recordName)
            (token, hasMore) = (page.syncToken, page.moreComing ?? false)
        }
        for name in names {
            let body = RecordChange(zoneID: zone, operations: [.init(record: .init(recordName: name))])
            let _: Nothing = try await call.ask("records/modify", body, for: user, in: home, database: "shared")
        }
    }

    /// Deletes the default zone, if there is one; returns whether there was one.
    ///
    /// Must be last, because every request of the user creates it again.
    private func deleteDefault(of user: UserID, in home: ContainerEnvironment) async throws -> Bool {
        guard let store = try call.parts.stores.existingStore(of: home) else { return false }
        let id = ZoneID(ZoneID.defaultName, owner: user)
        return try await store.write(touching: user, prefetch: Prefetch([id: []])) { writer throws(RelayError) in
            guard let zone = try writer.zone(id) else { return false }
            try writer.deleteZone(zone, by: "")
            return true
        }
    }

    private func zones(
        of user: UserID,
        in home: ContainerEnvironment,
        database: String = "private"
    ) async throws -> [Zone] {
        let found: Zones = try await call.ask("zones/list", Nothing(), for: user, in: home, database: database)
        return found.zones.map(\.zoneID)
    }

    private func delete(_ zone: Zone, of user: UserID, in home: ContainerEnvironment) async throws {
        let body = ZoneChange(operations: [.init(zone: .init(zoneID: zone))])
        let _: Nothing = try await call.ask("zones/modify", body, for: user, in: home)
    }
}
