import ChildProcesses
import Foundation

/// A pseudo-terminal, for commands that prompt.
final class PseudoTerminal {
    struct Failure: Error {}

    /// The end where the test types.
    private let keyboard: Int32
    /// The end that the command reads.
    let command: FileHandle

    init() throws {
        keyboard = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
        var (lock, number) = (Int32(0), UInt32(0))
        // TIOCSPTLCK and TIOCGPTN, which Swift does not import.
        guard keyboard >= 0, ioctl(keyboard, 0x4004_5431, &lock) == 0, ioctl(keyboard, 0x8004_5430, &number) == 0 else {
            throw Failure()
        }
        let end = open("/dev/pts/\(number)", O_RDWR | O_NOCTTY | O_CLOEXEC)
        guard end >= 0 else { throw Failure() }
        command = FileHandle(fileDescriptor: end, closeOnDealloc: true)
    }

    deinit { close(keyboard) }

    /// Whether the terminal shows typed characters.
    var echoes: Bool {
        var settings = termios()
        tcgetattr(command.fileDescriptor, &settings)
        return settings.c_lflag & tcflag_t(ECHO) != 0
    }

    func type(_ text: String) { _ = Array(text.utf8).withUnsafeBytes { write(keyboard, $0.baseAddress, $0.count) } }

    /// Returns a command with this terminal as its input, not started yet.
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
