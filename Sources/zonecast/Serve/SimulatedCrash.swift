import Foundation
import Synchronization

/// Simulates a crash: ends the relay at once and starts it again in the same process.
///
/// For the browser demo, which cannot send a signal. Nothing is finished, answered or flushed: all threads end at once,
/// the system closes files and sockets, and 1.5 seconds later the program starts again with the same folder and port.
final class SimulatedCrash: Sendable {
    private let address = Mutex<String?>(nil)
    /// The file descriptors that the process inherited; the restarted program inherits them too.
    ///
    /// The parent process may use one of them to detect the end of this process.
    private let inherited: Set<Int32>

    /// The signals that stop the relay; includes SIGHUP unless the parent ignores it, as `nohup` does.
    let stopSignals: [Int32]

    /// Must be called before any file is opened or any signal handler is installed.
    init() {
        inherited = Self.openDescriptors
        stopSignals = [SIGTERM, SIGINT] + (Self.ignoresHangup ? [] : [SIGHUP])
    }

    private static var ignoresHangup: Bool {
        let before = signal(SIGHUP, SIG_IGN)
        signal(SIGHUP, before)
        return unsafeBitCast(before, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
    }

    private static var openDescriptors: Set<Int32> {
        Set(((try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []).compactMap { Int32($0) })
    }

    /// Records the relay's address, which the restarted program must use even if the configured port is 0.
    func isListening(at address: String) { self.address.withLock { $0 = address } }

    /// The action that crashes and restarts the relay; `nil` if the system does not support it or the program file is
    /// gone.
    var action: (@Sendable () -> Void)? {
        #if os(Linux)
            guard let program = Self.program else { return nil }
            return { [self] in
                // The delay lets the response to the request reach the client.
                DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(50)) { self.run(program) }
            }
        #else
            return nil
        #endif
    }

    #if os(Linux)
        private static var program: String? {
            let path = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
            return path.flatMap { FileManager.default.isExecutableFile(atPath: $0) ? $0 : nil }
        }

        private func run(_ program: String) {
            // The reader of standard output may have stopped after the first "ready", so the second goes to standard
            // error.
            let script = "sleep 1.5; exec \"$0\" \"$@\" >&2"
            var arguments = ["sh", "-c", script, program] + CommandLine.arguments.dropFirst()
            if let address = address.withLock({ $0 }) { arguments += ["--listen", address] }
            // Descriptors that were not inherited close at exec, all at the same moment.
            for descriptor in Self.openDescriptors.subtracting(inherited) where descriptor > 2 {
                _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            }
            // Ignored and blocked signals survive exec, and this thread blocks them; the new program must receive them.
            for number in stopSignals { signal(number, SIG_DFL) }
            var none = sigset_t()
            sigemptyset(&none)
            pthread_sigmask(SIG_SETMASK, &none, nil)
            var pointers = arguments.map { strdup($0) } + [nil]
            execv("/bin/sh", &pointers)
        }
    #endif
}
