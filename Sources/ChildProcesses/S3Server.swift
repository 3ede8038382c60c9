import Foundation

/// An S3 server with one bucket, `backups`: moto, which Amazon's own client library is tested against.
///
/// It ends with the test's process.
package final class S3Server: Sendable {
    package struct StartError: Error, CustomStringConvertible {
        package let description: String
    }

    /// Where `Deploy/setup --peers` puts moto.
    private static let packages = NSHomeDirectory() + "/.cache/zonecast/moto"

    package static let isInstalled = FileManager.default.fileExists(atPath: packages + "/moto/server.py")

    /// The reason with which tests are skipped.
    package static let notInstalled = "moto is not installed: Deploy/setup --peers"

    private static let program = """
        import sys, boto3
        from moto.server import ThreadedMotoServer
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        address = "http://%s:%d" % server.get_host_and_port()
        keys = dict(aws_access_key_id="key", aws_secret_access_key="secret")
        boto3.client("s3", endpoint_url=address, region_name="us-east-1", **keys).create_bucket(Bucket="backups")
        print(address, flush=True)
        sys.stdin.read()
        """

    /// The server's address, such as `http://127.0.0.1:41234`.
    package let address: String
    private let process = ChildProcess()
    /// Ends the server when it is closed.
    private let life = Pipe()

    package init() throws {
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", "-c", Self.program]
        process.environment = ProcessInfo.processInfo.environment.merging(["PYTHONPATH": Self.packages]) { $1 }
        process.standardInput = life
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        var line: [UInt8] = []
        while let byte = try output.fileHandleForReading.read(upToCount: 1)?.first, byte != UInt8(ascii: "\n") {
            line.append(byte)
        }
        address = String(decoding: line, as: UTF8.self)
        guard address.hasPrefix("http") else { throw StartError(description: "moto did not start: \(address)") }
    }

    /// The variables with which a program uses the server.
    package var environment: [String: String] {
        ["AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ENDPOINT_URL": address]
    }

    deinit { try? life.fileHandleForWriting.close() }
}
