import Dispatch
package import Foundation
import Synchronization

/// A program that a test runs, with the part of Foundation's `Process` that tests need.
///
/// Foundation's `Process` can crash if more than 1,300 files are open: it searches `/proc/self/fd` for the last one and
/// copies 256 bytes of each name, past the end of the system's buffer. Hundreds of concurrent tests have that many.
package final class ChildProcess: Sendable {
    package enum TerminationReason: Sendable { case exit, uncaughtSignal }

    private struct State {
        var identifier: pid_t = 0
        /// The status as returned by `waitpid`; `nil` until the process has ended.
        var status: Int32?
    }

    // Unsafe, here and below: the code that creates the object sets the configuration, and only `run` reads it.
    /// The program; set before `run`, like the rest of the configuration.
    package nonisolated(unsafe) var executableURL: URL?
    package nonisolated(unsafe) var arguments: [String] = []
    package nonisolated(unsafe) var environment: [String: String]?
    package nonisolated(unsafe) var currentDirectoryURL: URL?
    /// A `Pipe` or a `FileHandle`; `nil` inherits the test's own.
    package nonisolated(unsafe) var standardInput: Any?
    package nonisolated(unsafe) var standardOutput: Any?
    package nonisolated(unsafe) var standardError: Any?

    /// No test takes longer; `nil` for a program that serves all of them.
    ///
    /// A child that hangs is killed, so that its test continues and fails.
    package nonisolated(unsafe) var mostSeconds: Double? = 1_200

    private let state = Mutex(State())
    private let life = DispatchGroup()

    package init() {}

    package var processIdentifier: pid_t { state.withLock { $0.identifier } }
    package var isRunning: Bool { state.withLock { $0.identifier != 0 && $0.status == nil } }

    /// The exit status, or the number of the signal that ended the process.
    package var terminationStatus: Int32 {
        let status = state.withLock { $0.status } ?? -1
        return status & 0x7F == 0 ? (status >> 8) & 0xFF : status & 0x7F
    }

    package var terminationReason: TerminationReason {
        (state.withLock { $0.status } ?? 0) & 0x7F == 0 ? .exit : .uncaughtSignal
    }

    package func run() throws {
        let program = executableURL?.path ?? ""
        var (actions, traits) = (Actions(), Traits())
        defer {
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&traits)
        }
        posix_spawn_file_actions_init(&actions)
        posix_spawnattr_init(&traits)
        var theirs: [FileHandle] = []
        for (target, stream) in [standardInput, standardOutput, standardError].enumerated() {
            if let pipe = stream as? Pipe {
                let end = target == 0 ? pipe.fileHandleForReading : pipe.fileHandleForWriting
                posix_spawn_file_actions_adddup2(&actions, end.fileDescriptor, Int32(target))
                theirs.append(end)
            } else if let handle = stream as? FileHandle, handle === FileHandle.nullDevice {
                posix_spawn_file_actions_addopen(&actions, Int32(target), "/dev/null", O_RDWR, 0)
            } else if let handle = stream as? FileHandle {
                posix_spawn_file_actions_adddup2(&actions, handle.fileDescriptor, Int32(target))
            }
        }
        if let folder = currentDirectoryURL {
            try Self.add("posix_spawn_file_actions_addchdir_np", folder.path, &actions)
        }
        // Dispatch's threads block signals, and a child would inherit that and never receive SIGTERM.
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&traits, &none)
        var flags = Int32(POSIX_SPAWN_SETPGROUP) | Int32(POSIX_SPAWN_SETSIGMASK)
        #if canImport(Darwin)
            flags |= POSIX_SPAWN_CLOEXEC_DEFAULT
        #else
            try Self.add("posix_spawn_file_actions_addclosefrom_np", 3 as Int32, &actions)
        #endif
        posix_spawnattr_setflags(&traits, Int16(flags))
        let words = ([program] + arguments).map { strdup($0) }
        let settings = (environment ?? ProcessInfo.processInfo.environment).map { strdup("\($0.key)=\($0.value)") }
        defer { (words + settings).forEach { free($0) } }
        var identifier: pid_t = 0
        let fault = posix_spawn(&identifier, program, &actions, &traits, words + [nil], settings + [nil])
        guard fault == 0 else { throw POSIXError(POSIXErrorCode(rawValue: fault) ?? .EINVAL) }
        for end in theirs { try? end.close() }
        state.withLock { $0.identifier = identifier }
        life.enter()
        let reaper = Thread { [self, identifier] in
            // The process stays a zombie until the lock is held, so that no signal reaches another process with the
            // same ID.
            var facts = siginfo_t()
            while waitid(P_PID, id_t(identifier), &facts, WEXITED | WNOWAIT) != 0, errno == EINTR {}
            state.withLock {
                var status: Int32 = 0
                while waitpid(identifier, &status, 0) < 0, errno == EINTR {}
                $0.status = status
            }
            life.leave()
        }
        reaper.start()
        guard let mostSeconds else { return }
        DispatchQueue.global().asyncAfter(deadline: .now() + mostSeconds) { [weak self] in self?.signal(SIGKILL) }
    }

    package func waitUntilExit() { life.wait() }

    package func terminate() { signal(SIGTERM) }

    /// Sends a signal if the process has not ended.
    package func signal(_ number: Int32) {
        state.withLock { if $0.identifier != 0, $0.status == nil { _ = kill($0.identifier, number) } }
    }

    /// Calls a function that the system library has but whose declaration is hidden from Swift.
    private static func add(_ name: String, _ folder: String, _ actions: inout Actions) throws {
        typealias Function = @convention(c) (UnsafeMutablePointer<Actions>, UnsafePointer<CChar>) -> Int32
        guard let symbol = dlsym(nil, name) else { throw POSIXError(.ENOSYS) }
        _ = unsafeBitCast(symbol, to: Function.self)(&actions, folder)
    }

    private static func add(_ name: String, _ first: Int32, _ actions: inout Actions) throws {
        typealias Function = @convention(c) (UnsafeMutablePointer<Actions>, Int32) -> Int32
        guard let symbol = dlsym(nil, name) else { throw POSIXError(.ENOSYS) }
        _ = unsafeBitCast(symbol, to: Function.self)(&actions, first)
    }

    #if canImport(Darwin)
        private typealias Actions = posix_spawn_file_actions_t?
        private typealias Traits = posix_spawnattr_t?
    #else
        private typealias Actions = posix_spawn_file_actions_t
        private typealias Traits = posix_spawnattr_t
    #endif
}
