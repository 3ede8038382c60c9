import Foundation
import Records
import RelayCore
import RelayStore
import Wire

/// One user at the running relay of a data folder, in one container; disabled users too.
struct UserVisit {
    let home: ContainerEnvironment
    let connection: WireConnection
    private let visits: UserVisits
    private let user: UserID
    private let folder: String

    /// - Throws: `CommandFailure` where no relay runs on the folder.
    init(of account: Account, in home: ContainerEnvironment, _ visits: UserVisits, folder: String) async throws {
        guard case let address?? = FolderLock.runningRelay(in: folder), var place = ProbeAddress(address) else {
            throw CommandFailure(
                .unreachable,
                "No relay runs on \(folder), and this asks one. Start it with: zonecast serve --data \(folder.shellWord)"
            )
        }
        place.connectsToItself()
        // Somebody's whole data is waited for, on a machine that may be busy.
        place.patience = 120
        self.home = home
        self.folder = folder
        self.visits = visits
        do {
            let started = try visits.start(account, in: home)
            user = started.user
            let credentials = DoctorCredentials(
                container: home.container.name,
                environment: home.environment.rawValue,
                apiToken: started.apiToken,
                webToken: started.webToken
            )
            connection = try await WireConnection(place, credentials, device: "zonecast-command")
        } catch {
            visits.end()
            throw error
        }
    }

    func end() {
        connection.close()
        visits.end()
    }

    /// The user's own zones by their JSON, or those that others share with them.
    func zones(in database: String) async throws -> [JSONValue] {
        try await connection.post("zones/list", in: database, "{}").list("zones")
    }

    /// Hands over every live record of a zone, page by page.
    func records(of zone: String, _ visit: (JSONValue) -> Void) async throws {
        guard zone != ZoneID.defaultName else { return try await defaultRecords(visit) }
        var token: String?
        while true {
            let since = token.map { #","syncToken":\#(quoted($0))"# } ?? ""
            let answer = try await connection.post(
                "changes/zone",
                in: "private",
                #"{"zones":[{"zoneID":{"zoneName":\#(quoted(zone))},"resultsLimit":200\#(since)}]}"#
            )
            guard let page = answer.list("zones").first else { return }
            for record in page.list("records") where (try? record["deleted"]?.bool()) != true { visit(record) }
            token = page.text("syncToken")
            guard (try? page["moreComing"]?.bool()) == true else { return }
        }
    }

    /// Leaves a zone of somebody else's, as every participant does: by deleting the shares in it that the user is in.
    func leave(_ zone: JSONValue) async throws {
        var (shares, token): ([String], String?) = ([], nil)
        while true {
            let since = token.map { #","syncToken":\#(quoted($0))"# } ?? ""
            let wish = #"{"zoneID":\#(zone.line),"desiredRecordTypes":["cloudkit.share"]\#(since)}"#
            let answer = try await connection.post("changes/zone", in: "shared", #"{"zones":[\#(wish)]}"#)
            guard let page = answer.list("zones").first else { break }
            shares += page.list("records").filter { (try? $0["deleted"]?.bool()) != true }
                .compactMap { $0.text("recordName") }
            token = page.text("syncToken")
            guard (try? page["moreComing"]?.bool()) == true else { break }
        }
        for share in shares {
            let operation = #"{"operationType":"forceDelete","record":{"recordName":\#(quoted(share))}}"#
            let body = #"{"zoneID":\#(zone.line),"operations":[\#(operation)]}"#
            try await connection.post("records/modify", in: "shared", body)
        }
    }

    /// Deletes a zone of their own; the default one as well, which they themselves cannot.
    func delete(_ zone: JSONValue) async throws {
        let body = #"{"operations":[{"operationType":"delete","zone":{"zoneID":\#(zone.line)}}]}"#
        try await connection.post("zones/modify", in: "private", body)
    }

    /// Names from the file, records from the relay.
    private func defaultRecords(_ visit: (JSONValue) -> Void) async throws {
        try await look(up: try StorageReport.defaultZoneNames(of: user, in: home, folder: folder), in: "private", visit)
    }

    /// Hands over what they have saved in the public database, and may read there; their `Users` record too.
    func publicRecords(_ visit: (JSONValue) -> Void) async throws {
        try await look(up: try StorageReport.publicNames(madeBy: user, in: home, folder: folder), in: "public", visit)
    }

    /// Takes out of their `Users` record what the app has put there; the record itself is the relay's.
    func clearUserRecord() async throws {
        let record = #"{"recordName":\#(quoted(user.recordName)),"recordType":"Users","fields":{}}"#
        let body = #"{"operations":[{"operationType":"forceReplace","record":\#(record)}]}"#
        try await connection.post("records/modify", in: "public", body)
    }

    private func look(up names: [String], in database: String, _ visit: (JSONValue) -> Void) async throws {
        for start in stride(from: 0, to: names.count, by: 200) {
            let list = names[start..<min(start + 200, names.count)].map { #"{"recordName":\#(quoted($0))}"# }
            let body = #"{"records":[\#(list.joined(separator: ","))]}"#
            // What they may not read of their own is left out.
            let answer = try await connection.post("records/lookup", in: database, body, itemsMayFail: true)
            for record in answer.list("records") where record["serverErrorCode"] == nil { visit(record) }
        }
    }
}
