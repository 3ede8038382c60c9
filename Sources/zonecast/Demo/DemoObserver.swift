import Foundation
import Synchronization
import ZoneKit

/// Reads the relay directly, like a device without local storage.
final class DemoObserver: Sendable {
    /// The relay's records of one user.
    struct Truth: Equatable, Sendable {
        var own: [DemoNote] = []
        var shared: [DemoNote] = []
    }

    private let place: DemoPlace
    private let containers = Mutex<[String: CKContainer]>([:])

    init(_ place: DemoPlace) { self.place = place }

    /// Fetches a user's record name.
    func greet(_ user: String) async throws {
        let name = try await container(of: user).userRecordID().recordName
        place.people.meet(user, as: name)
    }

    func truth(of user: String) async throws -> Truth {
        let container = container(of: user)
        return Truth(
            own: try await notes(in: container.privateCloudDatabase),
            shared: try await notes(in: container.sharedCloudDatabase)
        )
    }

    private func notes(in database: CKDatabase) async throws -> [DemoNote] {
        var notes: [DemoNote] = []
        for zone in try await database.allRecordZones() where zone.zoneID.zoneName != CKRecordZone.ID.defaultZoneName {
            var token: CKServerChangeToken?
            var moreComing = true
            while moreComing {
                let page = try await database.zoneChangesPage(in: zone.zoneID, since: token)
                notes += page.records.filter { $0.recordType == DemoNote.entityName }.map { DemoNote($0) }
                token = page.changeToken
                moreComing = page.moreComing
            }
        }
        return notes.filter { place.isOurs($0.name) }.sorted { $0.name < $1.name }
    }

    func board() async throws -> [String: String] {
        let database = container(of: "bob").publicCloudDatabase
        var board: [String: String] = [:]
        let query = CKQuery(recordType: DemoPost.entityName, predicate: NSPredicate(value: true))
        var page = try await database.records(matching: query)
        while true {
            for case (let id, .success(let record)) in page.matchResults
            where record["deletedAt"] as Date? == nil && place.isOurs(id.recordName) {
                board[id.recordName] = record["text"]
            }
            guard let cursor = page.queryCursor else { return board }
            page = try await database.records(continuingMatchFrom: cursor)
        }
    }

    /// Deletes everything of this run from a relay that the demo did not start.
    func tidy(_ user: String) async throws {
        let container = container(of: user)
        for zone in try await container.privateCloudDatabase.allRecordZones()
        where zone.zoneID.zoneName == place.zoneName || !place.isBorrowed && zone.zoneID.zoneName.contains(".share.") {
            try await container.privateCloudDatabase.deleteRecordZone(withID: zone.zoneID)
        }
        let query = CKQuery(recordType: DemoPost.entityName, predicate: NSPredicate(value: true))
        let page = try await container.publicCloudDatabase.records(matching: query)
        for (id, _) in page.matchResults where place.isOurs(id.recordName) {
            _ = try? await container.publicCloudDatabase.deleteRecord(withID: id)
        }
    }

    private func container(of user: String) -> CKContainer {
        containers.withLock { containers in
            if let known = containers[user] { return known }
            let made = CKContainer(
                connection: RelayConnection(
                    container: place.container,
                    url: place.url,
                    credentials: RelayCredentials(apiToken: place.apiToken, webAuthToken: place.webToken(of: user)),
                    deviceID: "\(place.run)-observer",
                    transport: NetworkTransport.to(place.url, timeout: 10)
                )
            )
            containers[user] = made
            return made
        }
    }
}

extension DemoNote {
    /// A note as stored on the relay.
    init(_ record: CKRecord) {
        self.init(
            name: record.recordID.recordName,
            title: record["title"] ?? "",
            done: (record["done"] as Int64?) == 1
        )
    }
}
