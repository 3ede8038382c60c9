import Foundation
import Logging
import Records
import RelayAPI
import RelayCore
import RelayServer
import RelaySystem
import ServiceLifecycle

/// The file with which a command gets single stores of a running relay: `store.request` in the data folder.
///
/// The command locks the file and writes a line with the stores that it needs. The relay refuses requests for these
/// stores, tells their devices to come back, finishes the requests in progress, closes the stores and adds `closed`.
/// The command does its work and adds `done`. The relay opens the stores again and empties the file. All other stores
/// are served all the time. If the command dies, its lock ends, and the relay completes or undoes its work.
///
/// Lines are only added, so that a reader sees whole answers or none. The file is never deleted: with a new file,
/// two commands could hold a lock.
struct StoreRequestFile: ~Copyable {
    static let name = "store.request"
    static let closed = "closed"
    static let done = "done"

    let descriptor: Int32

    /// Opens the file.
    ///
    /// - Throws: `CommandFailure` if that is not possible; the descriptor is -1 on a read-only file system.
    init(in folder: String) throws {
        let path = "\(folder)/\(Self.name)"
        descriptor = open(path, O_CREAT | O_RDWR | O_APPEND | O_CLOEXEC, 0o600)
        guard descriptor < 0, errno != EROFS else { return }
        let fault = errno
        throw CommandFailure(
            system: fault,
            "\(path) cannot be opened: \(String(cString: strerror(fault))). \(FolderAccess.remedy(fault))"
        )
    }

    /// Returns whether this process has the lock now.
    func lock() -> Bool { descriptor < 0 || flock(descriptor, LOCK_EX | LOCK_NB) == 0 }

    func unlock() { if descriptor >= 0 { flock(descriptor, LOCK_UN) } }

    /// The complete lines.
    var lines: [String] {
        var bytes = [UInt8](repeating: 0, count: 4_096)
        let count = descriptor < 0 ? 0 : pread(descriptor, &bytes, bytes.count, 0)
        return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
            .components(separatedBy: "\n").dropLast().map { String($0) }
    }

    func add(_ line: String) {
        let bytes = Array("\(line)\n".utf8)
        if descriptor >= 0 { _ = write(descriptor, bytes, bytes.count) }
    }

    func clear() { if descriptor >= 0 { _ = ftruncate(descriptor, 0) } }

    deinit {
        guard descriptor >= 0 else { return }
        // A child process may have a copy of the descriptor, and with it the lock.
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }
}

/// The first line of the file: an identifier and the stores.
private struct StoreRequest: Equatable {
    /// Stands for every store.
    private static let all = "*"

    var id: String
    /// `nil` for every store.
    var homes: [ContainerEnvironment]?

    var line: String {
        let names = homes?.map { "\($0.container.name)/\($0.environment.rawValue)" } ?? [Self.all]
        return ([id] + names).joined(separator: " ")
    }

    init(_ homes: [ContainerEnvironment]?) {
        id = UUID().uuidString
        self.homes = homes
    }

    init?(_ line: String) {
        let words = line.split(separator: " ")
        guard let id = words.first else { return nil }
        self.id = String(id)
        guard words.dropFirst().first.map(String.init) != Self.all else { return }
        homes = words.dropFirst().compactMap { word in
            let parts = word.split(separator: "/").map(String.init)
            guard parts.count == 2, let container = ContainerID(parts[0]),
                let environment = Records.Environment(rawValue: parts[1])
            else { return nil }
            return ContainerEnvironment(container, environment)
        }
    }
}

/// The use of some stores by a command alone, with or without a running relay.
struct StoreHold: ~Copyable {
    /// How long the relay may take to finish the requests in progress, and to open the stores again.
    private static let timeout = Duration.seconds(40)

    private let file: StoreRequestFile
    private let folder: String
    /// `nil` if a relay is running.
    private let wholeFolder: FolderLock?

    /// Whether a relay goes on with the other stores.
    var isBesideRelay: Bool { wholeFolder == nil }

    /// Waits until no relay uses the stores; `nil` means all of them.
    ///
    /// - Throws: `CommandFailure` with `.conflict` if another command uses the folder or the relay does not answer.
    init(_ homes: [ContainerEnvironment]?, in folder: String) throws {
        let file = try FolderLock.requestFile(in: folder)
        wholeFolder = try Self.take(homes, of: folder, by: file)
        self.folder = folder
        self.file = file
    }

    /// Asks the relay for the stores; if none is running, returns a lock of the whole folder.
    private static func take(
        _ homes: [ContainerEnvironment]?,
        of folder: String,
        by file: borrowing StoreRequestFile
    ) throws -> FolderLock? {
        let request = StoreRequest(homes)
        let start = ContinuousClock.now
        var isAsked = false
        while true {
            if FolderLock.runningRelay(in: folder) == nil {
                // A relay that ended meanwhile has closed its stores.
                file.clear()
                return try FolderLock(besideRequestIn: folder)
            }
            if !isAsked {
                file.clear()
                file.add(request.line)
                isAsked = true
            }
            if let answer = file.lines.dropFirst().first {
                if answer == StoreRequestFile.closed { return nil }
                file.clear()
                throw CommandFailure(.conflict, "The relay on \(folder) cannot pause the container. \(answer)")
            }
            guard ContinuousClock.now - start < timeout else {
                file.clear()
                throw CommandFailure(
                    .conflict,
                    "The relay on \(folder) does not pause the container. Stop it, run the command again, and start it."
                )
            }
            usleep(20_000)
        }
    }

    /// Lets the relay open the stores, and waits until it has.
    consuming func end() {
        guard isBesideRelay else { return file.clear() }
        file.add(StoreRequestFile.done)
        let start = ContinuousClock.now
        while !file.lines.isEmpty, ContinuousClock.now - start < Self.timeout {
            guard FolderLock.runningRelay(in: folder) != nil else { return file.clear() }
            usleep(20_000)
        }
    }
}

/// Closes and opens stores of the running relay for commands.
struct StoreRequestWatch: Service {
    private static let interval = Duration.milliseconds(100)

    let data: String
    let home: any RelayHome
    let accounts: any AccountDirectory
    let stores: any ServedStores
    let relay: Relay
    let logger: Logger

    func run() async throws {
        let file = try StoreRequestFile(in: data)
        await cancelWhenGracefulShutdown {
            var current: StoreRequest?
            var homes: [ContainerEnvironment] = []
            while (try? await Task.sleep(for: Self.interval)) != nil {
                let lines = file.lines
                let request = lines.first.flatMap(StoreRequest.init)
                if let last = current, last != request {
                    reopen(homes)
                    current = nil
                }
                guard let request else { continue }
                if current == nil {
                    current = request
                    homes = request.homes ?? used
                    file.add(await close(homes))
                }
                let isDone = lines.last == StoreRequestFile.done
                // A command that died has left its lock.
                let isAbandoned = !isDone && file.lock()
                guard isDone || isAbandoned else { continue }
                // The stores stay closed until the services have ended.
                if let sentence = DataFolder.mark(of: data) { return logger.notice("\(sentence)") }
                reopen(homes)
                current = nil
                // Another command may have written its request, after the death of this one.
                if file.lines.first == request.line { file.clear() }
                if isAbandoned { file.unlock() }
            }
        }
    }

    /// The stores that have been used; a command that wants all of them has locked the accounts, so that none is added.
    private var used: [ContainerEnvironment] {
        let containers = (try? accounts.containers().map(\.container)) ?? []
        return containers.flatMap { container in
            Records.Environment.allCases.map { ContainerEnvironment(container, $0) }.filter(stores.isThere)
        }
    }

    /// Returns the answer to the command.
    private func close(_ homes: [ContainerEnvironment]) async -> String {
        for (index, home) in homes.enumerated() {
            do throws(RelayError) {
                try await stores.hold(home, patience: .seconds(30)) { relay.storeIsHeld(home) }
                await relay.storeIsClosed(home)
            } catch {
                open(Array(homes[..<index]))
                return error.reason
            }
        }
        logger.info("A command uses \(Self.names(homes)); requests for it are refused until it is done.")
        return StoreRequestFile.closed
    }

    private static func names(_ homes: [ContainerEnvironment]) -> String {
        Set(homes.map(\.container.name)).sorted().joined(separator: ", ")
    }

    /// Completes or undoes what a command that failed or died has begun, and serves the stores again.
    private func reopen(_ homes: [ContainerEnvironment]) {
        do {
            try home.backups.finishRestore()
            try home.upkeep.finishRemoval(with: accounts)
        } catch {
            // With half of the old content and half of the new, no store may be opened.
            return logger.critical(
                "\(Self.names(homes)) stays closed: the work of a command could be neither completed nor undone. \(error) Correct that, and run the command again."
            )
        }
        open(homes)
        logger.info("\(Self.names(homes)) is served again.")
    }

    private func open(_ homes: [ContainerEnvironment]) {
        for home in homes {
            accounts.forgetSeen(home.container)
            stores.release(home)
            relay.storeIsOpen(home)
        }
    }
}
