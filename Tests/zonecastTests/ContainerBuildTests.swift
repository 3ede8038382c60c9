import Foundation
import TestSupport
import Testing

/// `Deploy/container/build` with each program that builds images.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct ContainerBuildTests {
    private let folder = ScratchFolder()

    /// Makes a PATH folder with only the tools that the script calls, to hide other builders of this machine.
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
    func theBaseImageAndThePackagesArePassedOn(builder: String) throws {
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
        #expect(run.status == 0, "\(run.output)")
        #expect(run.output.contains("--tag localhost/zonecast:9.9.9 "), "\(run.output)")
        let buildArguments = "--build-arg BASE=mirror.example/debian:12 --build-arg PACKAGES= "
        #expect(run.output.contains(buildArguments), "\(run.output)")
        // Health checks require the docker format; docker itself has no other and does not know the option.
        #expect(run.output.contains("--format docker") == (builder != "docker"), "\(run.output)")
    }
}
