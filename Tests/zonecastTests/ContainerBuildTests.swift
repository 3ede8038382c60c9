import Foundation
import TestSupport
import Testing

/// `Deploy/container/build`, with whichever program makes images.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct ContainerBuildTests {
    private let folder = ScratchFolder()

    /// A folder with nothing in it but what the script calls, so that no other builder of this machine is found.
    private func makeTools(_ builder: String) throws {
        let tools = "\(folder.path)/tools"
        try FileManager.default.createDirectory(atPath: tools, withIntermediateDirectories: true)
        for name in ["bash", "dirname", "mktemp", "rm", "install", "strip"] {
            guard let path = Tool.path(name) else { continue }
            try FileManager.default.createSymbolicLink(atPath: "\(tools)/\(name)", withDestinationPath: path)
        }
        try makeScript("\(tools)/\(builder)", "printf '%s ' \"$@\"")
        try makeScript("\(folder.path)/zonecast", "echo 9.9.9")
    }

    private func makeScript(_ path: String, _ line: String) throws {
        try Data("#!/bin/bash\n\(line)\n".utf8).write(to: URL(fileURLWithPath: path))
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: path)
    }

    @Test(arguments: ["buildah", "podman", "docker"])
    func theBaseAndThePackagesAreWhatWasAskedFor(builder: String) throws {
        try makeTools(builder)
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../Deploy/container/build").standardizedFileURL.path
        let run = try Tool.run(
            "env",
            [
                "-i", "PATH=\(folder.path)/tools", "BASE=mirror.example/debian:12", "PACKAGES=", "bash", script,
                "\(folder.path)/zonecast",
            ]
        )
        #expect(run.status == 0, "\(run.said)")
        #expect(run.said.contains("--tag localhost/zonecast:9.9.9 "), "\(run.said)")
        #expect(run.said.contains("--build-arg BASE=mirror.example/debian:12 --build-arg PACKAGES= "), "\(run.said)")
        // Health checks are of that format; docker makes no other, and does not know the option.
        #expect(run.said.contains("--format docker") == (builder != "docker"), "\(run.said)")
    }
}
