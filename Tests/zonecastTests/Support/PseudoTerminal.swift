import ChildProcesses
import Foundation

/// A terminal that is none, for what a command asks a person.
final class PseudoTerminal {
    struct Failure: Error {}

    /// The person's end.
    private let keyboard: Int32
    /// The command's end.
    let command: FileHandle

    init() throws {
        keyboard = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
        var (lock, number) = (Int32(0), UInt32(0))
        // The system's TIOCSPTLCK and TIOCGPTN, which Swift is not shown.
        guard keyboard >= 0, ioctl(keyboard, 0x4004_5431, &lock) == 0, ioctl(keyboard, 0x8004_5430, &number) == 0 else {
            throw Failure()
        }
        let end = open("/dev/pts/\(number)", O_RDWR | O_NOCTTY | O_CLOEXEC)
        guard end >= 0 else { throw Failure() }
        command = FileHandle(fileDescriptor: end, closeOnDealloc: true)
    }

    deinit { close(keyboard) }

    /// Whether what is typed is shown.
    var echoes: Bool {
        var settings = termios()
        tcgetattr(command.fileDescriptor, &settings)
        return settings.c_lflag & tcflag_t(ECHO) != 0
    }

    func type(_ text: String) { _ = Array(text.utf8).withUnsafeBytes { write(keyboard, $0.baseAddress, $0.count) } }

    /// A command that asks here; not started yet.
    func process(_ arguments: [String]) -> ChildProcess {
        let process = ChildProcess()
        process.executableURL = Command.program
        process.arguments = arguments
        process.environment = Command.cleanEnvironment()
        process.standardInput = command
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        return process
    }
}
