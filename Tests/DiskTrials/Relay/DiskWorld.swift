import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelaySystem
import SQLiteStore
import Synchronization
import Wire

/// A temporary folder, deleted with the object.
package final class DiskFolder: Sendable {
    package let path: String
    /// The folder of the simulated disk's files.
    var work: String { path + "/work" }

    /// In memory if there is enough: the real disk's durability and speed are irrelevant here.
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

/// A complete relay on a data folder, called with request values: as `serve` runs it, without sockets.
///
/// Randomness comes from the seed and the clock does not move, so two runs of one script perform the same disk
/// operations.
package final class DiskWorld: Sendable {
    static let container = "iCloud.org.example.disk"
    static let now = Timestamp(milliseconds: 1_700_000_000_000)

    let relay: Relay
    let directory: AccountStore
    let stores: StoreFolder
    let tags: Tags
    /// The schema access of the command line.
    let schemas: SchemaFolder
    /// The file of the container's store.
    let file: String
    private let idempotencyCache: LostWriteCounter
    /// The simulated disk; `nil` for the system's.
    let disk: FaultyDisk?

    /// Counts lost writes.
    private final class LostWriteCounter: Sendable {
        let count = Mutex(0)
        func add() { count.withLock { $0 += 1 } }
    }

    /// Whether the relay has asked for a restart of the process.
    package var wantsRestart: Bool { idempotencyCache.count.withLock { $0 } > 0 }

    /// - Parameters:
    ///   - folder: The data folder.
    ///   - disk: The simulated disk; `nil` for the system's.
    ///   - seed: The seed of all random values; use another one for each start on the same folder.
    ///   - tags: The change tags that earlier starts of the relay gave out.
    ///   - checkpointPages: The log size that triggers a checkpoint. The default is so small that a script triggers
    ///     checkpoints.
    /// - Throws: The error of an accounts file that cannot be opened.
    package init(
        _ folder: String,
        on disk: FaultyDisk? = nil,
        seed: UInt64,
        tags: Tags = Tags(),
        checkpointPages: Int = 16
    )
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
        let idempotencyCache = LostWriteCounter()
        let random = SeededRandom(seed: seed)
        let time = TimeSource(now: { Self.now }, uptime: { .zero })
        let source = RandomSource { random.bytes($0) }
        directory = try AccountStore(
            folder: folder,
            time: time,
            random: source,
            cost: ScryptCost(rounds: 16, blockSize: 8, parallelism: 1),
            disk: disk?.calls ?? .system,
            onLostWrite: { idempotencyCache.add() }
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
            onLostWrite: { idempotencyCache.add() }
        )
        relay = Relay(
            authenticator: try Authenticator(directory: directory, settings: settings, time: time, random: source),
            stores: stores,
            time: time,
            random: source
        )
        self.idempotencyCache = idempotencyCache
    }

    package func close() { stores.close() }

    /// The container's store, for direct access.
    func store() throws -> SQLiteStore { try stores.sqliteStore(of: Self.home()) }

    static func home() throws -> ContainerEnvironment {
        guard let id = ContainerID(container) else { throw WorldFailure("the container ID is invalid") }
        return ContainerEnvironment(id, .development)
    }

    /// Sends a request as the user with the dev name `user`.
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

/// A response of the relay.
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
        guard let json else { throw WorldFailure("the answer is empty") }
        return try json.required(name).elements()
    }
}

extension JSONValue {
    func text(_ name: StaticString) -> String? { try? self[name]?.string() }
    func flag(_ name: StaticString) -> Bool { (try? self[name]?.bool()) ?? false }
}

/// SplitMix64 with a lock.
final class SeededRandom: Sendable {
    private static let step: UInt64 = 0x9E37_79B9_7F4A_7C15
    private let state: Mutex<UInt64>

    /// Mixes the seed: otherwise neighbouring seeds would give the same sequence, shifted by one.
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
