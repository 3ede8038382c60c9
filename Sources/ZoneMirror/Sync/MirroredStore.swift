import Foundation
import GRDB
import Records
import SyncCore
import ZoneKit

/// A store's file and the database with which it is kept in step, in the name of the store's user.
struct MirroredStore: Sendable {
    let file: StoreFile
    let database: CKDatabase
    let account: StoreAccount
    let values: ValueCodec
    let conditions: MirrorConditions
    let broadcaster: EventBroadcaster
    /// Returns another store of the container, for copies.
    let otherStore: @Sendable (StoreID) -> StoreFile?

    init(
        file: StoreFile,
        cloud: CloudOptions,
        conditions: MirrorConditions,
        broadcaster: EventBroadcaster,
        otherStore: @escaping @Sendable (StoreID) -> StoreFile?,
        accountChanged: @escaping @Sendable (StoreAccount.Change) async -> Void
    ) {
        self.file = file
        self.conditions = conditions
        self.broadcaster = broadcaster
        self.otherStore = otherStore
        database = cloud.container.database(with: cloud.scope)
        let account = StoreAccount(of: file, database, changed: accountChanged)
        self.account = account
        values = ValueCodec(
            file: file,
            database: database,
            assets: AssetValues(of: database) { account.binding }
        )
    }

    var isPublic: Bool { database.databaseScope == .public }
    var isPrivate: Bool { database.databaseScope == .private }
    /// Sends requests in the name of the store's user.
    var client: any RelayClient { account.client }
    var container: CKContainer { CKContainer(sharing: database.session) }
    var importer: PageImporter {
        PageImporter(file: file, now: conditions.wallClock(), crash: conditions.crashPoint)
    }

    /// Records an event and reports it to the listeners.
    func note(
        _ kind: MirrorEvent.Kind,
        began: Date? = nil,
        done: Int = 0,
        bytes: Int = 0,
        error: CKError? = nil,
        details: [MirrorEvent.Detail] = []
    ) async {
        let now = conditions.wallClock()
        let event = MirrorEvent(
            id: 0,
            store: file.id,
            kind: kind,
            began: began ?? now,
            ended: now,
            succeeded: error == nil,
            errorCode: error?.code,
            message: error?.explanation,
            done: done,
            total: nil,
            bytes: bytes,
            details: details
        )
        let written = try? await file.pool.write { [event] db in
            var event = event
            try EventLog.write(db, &event)
            return event
        }
        broadcaster.post(written ?? event)
    }
}
