import Foundation
import Synchronization

/// Ends the relay in mid-traffic, as a crash does, and starts it anew in the same process.
///
/// For the browser demo, which cannot send a signal. Nothing is finished, answered or flushed: all threads are gone at
/// once, the system closes files and sockets, and a second and a half later the program begins again on the same folder
/// and port.
final class SuddenRestart: Sendable {
    private let address = Mutex<String?>(nil)
    /// What the program was started with, and its next run too is to have: whoever started it may watch by one of these
    /// whether it has ended.
    private let inherited: Set<Int32>

    /// The signals that end the relay: a hangup too, unless whoever started it had that ignored, as `nohup` does.
    let stopSignals: [Int32]

    /// To be made before any file is opened, or any signal is caught.
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

    /// Where the relay listens, which the next start must too although it was told "any port".
    func isListening(at address: String) { self.address.withLock { $0 = address } }

    /// What can do it; `nil` where the system, or a program file that is gone, does not allow it.
    var action: (@Sendable () -> Void)? {
        #if os(Linux)
            guard let program = Self.program else { return nil }
            return { [self] in
                // Only then is the answer to whoever asked for it on its way.
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
            // Whoever waited for the first "ready" may not read any more, so the second goes to the other stream.
            let script = "sleep 1.5; exec \"$0\" \"$@\" >&2"
            var arguments = ["sh", "-c", script, program] + CommandLine.arguments.dropFirst()
            if let address = address.withLock({ $0 }) { arguments += ["--listen", address] }
            // What is not ours to hand on closes by itself, all at the same moment.
            for descriptor in Self.openDescriptors.subtracting(inherited) where descriptor > 2 {
                _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            }
            // They outlive the program, and this thread hears no signals: the next one must.
            for number in stopSignals { signal(number, SIG_DFL) }
            var none = sigset_t()
            sigemptyset(&none)
            pthread_sigmask(SIG_SETMASK, &none, nil)
            var pointers = arguments.map { strdup($0) } + [nil]
            execv("/bin/sh", &pointers)
        }
    #endif
}
