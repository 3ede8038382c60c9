import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelayStore
import Synchronization
import Wire

/// A folder of a test's own, gone when the test is.
package final class DiskFolder: Sendable {
    package let path: String
    /// Where the disk that is tried has its files.
    var work: String { path + "/work" }

    /// In memory where there is plenty: what the machine's own disk keeps, and how fast, is not what is tried.
    private static let home: String = {
        var room = statvfs()
        let isThere = statvfs("/dev/shm", &room) == 0 && access("/dev/shm", W_OK) == 0
        let free = UInt64(room.f_bavail) * UInt64(room.f_frsize)
        return isThere && free > 2 << 30 ? "/dev/shm" : FileManager.default.temporaryDirectory.path
    }()

    package init() throws {
        path = Self.home + "/zonecast-disk-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }
}

/// A whole relay on a folder, asked by request values: as `serve` has it, without sockets.
///
/// Randomness comes from the seed and the clock stands still, so that two runs of one script do the same to the disk.
final class DiskWorld: Sendable {
    static let container = "iCloud.org.example.disk"
    static let now = Timestamp(milliseconds: 1_700_000_000_000)

    let relay: Relay
    let directory: AccountStore
    let stores: StoreFolder
    let tags: Tags
    /// The command line's way to the schemas.
    let schemas: SchemaFolder
    /// The file of the container's store.
    let file: String
    private let losses: Losses
    /// What lies beneath; `nil` for the system's.
    let disk: FaultyDisk?

    /// Counts the relay's calls for its own end.
    private final class Losses: Sendable {
        let count = Mutex(0)
        func add() { count.withLock { $0 += 1 } }
    }

    /// Whether the relay said that the process had better end.
    var wantsRestart: Bool { losses.count.withLock { $0 } > 0 }

    /// - Parameters:
    ///   - folder: the data folder.
    ///   - disk: what lies beneath; `nil` for the system's.
    ///   - seed: of every draw; another for each start on the same folder.
    ///   - tags: those that an earlier start of the relay gave.
    ///   - checkpointPages: so few, left out, that a script meets the writing back of the log.
    /// - Throws: what the accounts' file throws that cannot be opened.
    init(_ folder: String, on disk: FaultyDisk? = nil, seed: UInt64, tags: Tags = Tags(), checkpointPages: Int = 16)
        throws
    {
        self.tags = tags
        self.disk = disk
        schemas = SchemaFolder(
            folder: folder,
            container: try Self.home().container,
            disk: disk?.calls ?? .system
        )
        file = "\(folder)/containers/\(Self.container)/development.sqlite"
        let losses = Losses()
        let random = Draw(seed: seed)
        let time = TimeSource(now: { Self.now }, uptime: { .zero })
        let source = RandomSource { random.bytes($0) }
        directory = try AccountStore(
            folder: folder,
            time: time,
            random: source,
            cost: ScryptCost(rounds: 16, blockSize: 8, parallelism: 1),
            disk: disk?.calls ?? .system,
            onLostWrite: { losses.add() }
        )
        var settings = SignInSettings()
        settings.acceptsDevTokens = true
        settings.requestRate = nil
        settings.publicRate = nil
        settings.failedCredentialRate = nil
        stores = StoreFolder(
            folder: folder,
            draw: { random.next() },
            disk: disk?.calls ?? .system,
            checkpointPages: checkpointPages,
            onLostWrite: { losses.add() }
        )
        relay = Relay(
            authenticator: try Authenticator(directory: directory, settings: settings, time: time, random: source),
            stores: stores,
            time: time,
            random: source
        )
        self.losses = losses
    }

    func close() { stores.close() }

    /// The container's store, for those who look beneath.
    func store() throws -> SQLiteStore { try stores.sqliteStore(of: Self.home()) }

    static func home() throws -> ContainerEnvironment {
        guard let id = ContainerID(container) else { throw WorldFailure("the container's name is none") }
        return ContainerEnvironment(id, .development)
    }

    /// Asks as a user whose dev name is `user`.
    func ask(_ operation: String, as user: String = "alice", _ body: String = "{}") async throws -> Reply {
        let path = "/database/1/\(Self.container)/development/\(operation)"
        let query = "ckAPIToken=x&ckWebAuthToken=dev-\(user)"
        return try await send(APIRequest(method: .post, path: path, query: query, body: Array(body.utf8)))
    }

    func send(_ request: APIRequest) async throws -> Reply {
        let response = await relay.respond(to: request)
        let json = try response.body.isEmpty ? nil : JSONDocument(parsing: response.body).root
        return Reply(status: response.status.code, json: json, response: response)
    }
}

struct WorldFailure: Error, CustomStringConvertible {
    var description: String
    init(_ description: String) { self.description = description }
}

/// An answer of the relay.
struct Reply {
    var status: Int
    var json: JSONValue?
    var response: APIResponse

    var code: String? { json?.text("serverErrorCode") }

    /// The first error of the request or of one of its items.
    func error(of items: StaticString) -> (code: String, reason: String)? {
        if let code { return (code, json?.text("reason") ?? "") }
        let elements = (try? json?[items]?.elements()) ?? []
        for item in elements {
            if let code = item.text("serverErrorCode") { return (code, item.text("reason") ?? "") }
        }
        return status == 200 ? nil : ("HTTP \(status)", "")
    }

    func items(_ name: StaticString) throws -> [JSONValue] {
        guard let json else { throw WorldFailure("an empty answer") }
        return try json.required(name).elements()
    }
}

extension JSONValue {
    func text(_ name: StaticString) -> String? { try? self[name]?.string() }
    func flag(_ name: StaticString) -> Bool { (try? self[name]?.bool()) ?? false }
}

/// SplitMix64 behind a lock.
final class Draw: Sendable {
    private static let step: UInt64 = 0x9E37_79B9_7F4A_7C15
    private let state: Mutex<UInt64>

    /// Mixed, not multiplied by the step: seeds beside each other would be one row of numbers, begun one later.
    init(seed: UInt64) { state = Mutex(Self.mixed(seed &+ Self.step)) }

    func next() -> UInt64 {
        state.withLock { state in
            state &+= Self.step
            return Self.mixed(state)
        }
    }

    private static func mixed(_ state: UInt64) -> UInt64 {
        var mixed = (state ^ (state >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    func below(_ bound: Int) -> Int { Int(next() % UInt64(max(1, bound))) }

    func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8(truncatingIfNeeded: next()) } }
}
