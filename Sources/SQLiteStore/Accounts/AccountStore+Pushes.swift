import Foundation
import GRDB
import Records
package import RelayCore
import StoreKit

extension AccountStore {
    package func addPushDevice(_ device: PushDevice, limit: Int) throws(DirectoryError) -> [String] {
        try write { db in
            let place: StatementArguments = [
                device.home.container.name, device.home.environment.rawValue, device.user.recordName,
            ]
            let others = try String.fetchAll(
                db,
                sql: """
                    SELECT id FROM push_devices WHERE container = ? AND environment = ? AND user = ? AND device <> ?
                    ORDER BY registered DESC, id LIMIT -1 OFFSET ?
                    """,
                arguments: place + [device.deviceID, max(limit - 1, 0)]
            )
            let older = try String.fetchAll(
                db,
                sql: "SELECT id FROM push_devices WHERE container = ? AND environment = ? AND user = ? AND device = ?",
                arguments: place + [device.deviceID]
            )
            for id in others + older { try Self.removePushDevice(id, db) }
            try Self.insert(device, db)
            return others + older
        }
    }

    package func removePushDevices(_ ids: [String]) throws(DirectoryError) {
        guard !ids.isEmpty else { return }
        try write { db in
            for id in ids { try Self.removePushDevice(id, db) }
        }
    }

    package func notePushFault(_ fault: String?, of id: String) throws(DirectoryError) {
        try write { db in
            try db.execute(sql: "UPDATE push_devices SET fault = ? WHERE id = ?", arguments: [fault, id])
        }
    }

    package func pushDevices() throws(DirectoryError) -> [PushDevice] {
        try read { db in
            try Row.fetchAll(db, sql: "SELECT * FROM push_devices ORDER BY registered, id")
                .compactMap(Self.pushDevice)
        }
    }

    // MARK: Rows

    private static func removePushDevice(_ id: String, _ db: Database) throws {
        try db.execute(sql: "DELETE FROM push_devices WHERE id = ?", arguments: [id])
    }

    private static func insert(_ device: PushDevice, _ db: Database) throws {
        let row = PushTargetColumns(device.target)
        try db.execute(
            sql: """
                INSERT INTO push_devices(id, container, environment, user, device, session, api_token,
                    kind, address, topic, is_sandbox, key, secret, registered, fault)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                device.id, device.home.container.name, device.home.environment.rawValue, device.user.recordName,
                device.deviceID, device.session?.data, Data(device.apiTokenHash), row.kind, row.address, row.topic,
                row.isSandbox, row.key.map { Data($0) }, row.secret.map { Data($0) }, device.registered.milliseconds,
                device.lastFault,
            ]
        )
    }

    private static func pushDevice(_ row: Row) -> PushDevice? {
        guard let home = home(row), let target = target(row).target else { return nil }
        return PushDevice(
            id: row["id"],
            home: home,
            user: UserID(row["user"]),
            deviceID: row["device"],
            session: (row["session"] as Data?).map { Session.ID($0) },
            apiTokenHash: Array(row["api_token"] as Data),
            target: target,
            registered: Timestamp(milliseconds: row["registered"]),
            lastFault: row["fault"]
        )
    }

    private static func target(_ row: Row) -> PushTargetColumns {
        PushTargetColumns(
            kind: row["kind"],
            address: row["address"],
            topic: row["topic"],
            isSandbox: row["is_sandbox"] ?? false,
            key: (row["key"] as Data?).map { Array($0) },
            secret: (row["secret"] as Data?).map { Array($0) }
        )
    }
}
