import Foundation
import Synchronization
import ZoneKit

/// What all clients of one demo share.
struct DemoSetting: Sendable {
    /// Where the clients keep their files, and the relay its data.
    var folder: String
    var container = "iCloud.org.zonecast.demo"
    var zoneName = "Notes"
    /// A type of its own for each run against a relay elsewhere, so that runs do not read each other's boards.
    var postType = "Post"
    /// 30 minutes in earnest.
    var boardInterval: Duration = .seconds(1)
}

/// The relay and the clients of a demo, and the ledger of what they did.
final class DemoWorld: Sendable {
    let setting: DemoSetting
    let narrator: Narrator
    /// `nil` where the relay is elsewhere.
    let relay: RelayChild?
    let url: URL
    private let all = Mutex<[DemoClient]>([])
    private let makeEndpoint: @Sendable (_ user: String, _ device: String) -> RelayEndpoint

    private init(
        setting: DemoSetting,
        narrator: Narrator,
        relay: RelayChild?,
        url: URL,
        makeEndpoint: @escaping @Sendable (String, String) -> RelayEndpoint
    ) {
        self.setting = setting
        self.narrator = narrator
        self.relay = relay
        self.url = url
        self.makeEndpoint = makeEndpoint
    }

    /// Starts the relay where none is named, and `count` clients: alice/phone, alice/laptop, bob/tablet, then more of alice's.
    static func open(_ options: DemoOptions, narrator: Narrator) async throws -> DemoWorld {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-demo-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        var setting = DemoSetting(folder: folder.path)
        var relay: RelayChild?
        let url: URL
        if let elsewhere = options.url {
            url = elsewhere
            let run = String(UInt32.random(in: 0 ... .max), radix: 36)
            setting.zoneName = "Notes-\(run)"
            setting.postType = "Post\(run)"
            setting.container = options.container ?? setting.container
        } else {
            let child = RelayChild(folder: folder.appendingPathComponent("relay").path)
            url = try await child.start()
            relay = child
        }
        let world = DemoWorld(setting: setting, narrator: narrator, relay: relay, url: url) { user, device in
            options.endpoint(url, user: user, device: device)
        }
        do {
            for index in 0..<max(3, options.clients) { try await world.addClient(index) }
        } catch {
            await world.close()
            throw error
        }
        return world
    }

    private static let names = ["alice/phone", "alice/laptop", "bob/tablet"]

    private func addClient(_ index: Int) async throws {
        let name = index < 3 ? Self.names[index] : "alice/device-\(index + 1)"
        let user = String(name.prefix { $0 != "/" })
        let client = try DemoClient(
            name: name,
            endpoint: makeEndpoint(user, name),
            setting: setting,
            narrator: narrator
        )
        all.withLock { $0.append(client) }
        try await client.goOnline()
    }

    var clients: [DemoClient] { all.withLock { $0 } }
    var phone: DemoClient { clients[0] }
    var laptop: DemoClient { clients[1] }
    var tablet: DemoClient { clients[2] }

    /// The clients of one user.
    func clients(of user: String) -> [DemoClient] { clients.filter { $0.name.hasPrefix(user + "/") } }

    /// Ends a client as quitting the app would and opens it again from its file.
    func restart(_ index: Int) async throws {
        let old = clients[index]
        await old.goOffline()
        let new = try DemoClient(name: old.name, endpoint: old.endpoint, setting: setting, narrator: narrator)
        all.withLock { $0[index] = new }
    }

    func close() async {
        for client in clients { await client.goOffline() }
        relay?.kill()
        try? FileManager.default.removeItem(atPath: setting.folder)
    }

    // MARK: The relay's side

    /// What the relay holds for a user, asked without any engine or file.
    func relayNotes(of user: String) async throws -> [String: DemoNote] {
        let container = CKContainer(identifier: setting.container, endpoint: makeEndpoint(user, "\(user)/check"))
        let zone = CKRecordZone.ID(zoneName: setting.zoneName, ownerName: CKCurrentUserDefaultName)
        var notes: [String: DemoNote] = [:]
        var token: CKServerChangeToken?
        var moreComing = true
        while moreComing {
            let page = try await container.privateCloudDatabase.recordZoneChanges(inZoneWith: zone, since: token)
            for (id, result) in page.modificationResultsByID {
                notes[id.recordName] = DemoNote(try result.get().record)
            }
            for deletion in page.deletions { notes[deletion.recordID.recordName] = nil }
            token = page.changeToken
            moreComing = page.moreComing
        }
        return notes
    }

    /// The same while the laptop is away.
    func settleExceptLaptop() async throws {
        try await Patience.wait(for: "\(phone.name) to send what it has") { try self.phone.pendingCount() == 0 }
    }

    /// Waits until nothing is pending and every mirror of these users equals the relay.
    func settle(within limit: Duration = .seconds(30)) async throws {
        try await Patience.wait(for: "every client to send what it has", within: limit) {
            try self.clients.allSatisfy { try $0.pendingCount() == 0 }
        }
        for user in Set(clients.map { String($0.name.prefix { $0 != "/" }) }) {
            let truth = try await relayNotes(of: user)
            try await Patience.wait(for: "\(user)'s devices to show what the relay has", within: limit) {
                try self.clients(of: user).allSatisfy { try $0.notes() == truth }
            }
        }
    }
}
