import RelayGateways
import Testing

/// The examples of Amazon's manual, "Signature Calculations for the Authorization Header".
struct S3SignatureTests {
    private let settings = S3Settings(
        accessKey: "AKIAIOSFODNN7EXAMPLE",
        secretKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    )
    private let time = "20130524T000000Z"
    private let nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

    @Test func anObjectIsRead() {
        let signature = S3Signature(
            method: "GET",
            path: "/test.txt",
            headers: [
                ("host", "examplebucket.s3.amazonaws.com"), ("range", "bytes=0-9"), ("x-amz-content-sha256", nothing),
            ],
            bodyHash: nothing
        )
        #expect(
            signature.authorization(settings, time: time)
                == "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
                + "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
                + "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        )
    }

    @Test func aBucketIsListed() {
        let signature = S3Signature(
            method: "GET",
            path: "/",
            query: [("prefix", "J"), ("max-keys", "2")],
            headers: [("host", "examplebucket.s3.amazonaws.com"), ("x-amz-content-sha256", nothing)],
            bodyHash: nothing
        )
        #expect(
            signature.authorization(settings, time: time)
                .hasSuffix("Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")
        )
    }

    @Test func parametersAreEscapedAndSorted() {
        #expect(S3Signature.text(of: [("b", "x/y+z="), ("a", ""), ("B", "ä~")]) == "B=%C3%A4~&a=&b=x%2Fy%2Bz%3D")
    }
}

struct S3AddressTests {
    @Test func addressesHaveABucketAndAPrefix() throws {
        let address = try #require(S3Address("s3://backups.example/relay//one/"))
        #expect(address.bucket == "backups.example")
        #expect(address.prefix == "relay/one")
        #expect(address.description == "s3://backups.example/relay/one")
        #expect(S3Address("s3://bucket")?.prefix == "")
    }

    @Test(arguments: [
        "", "s3://", "s3://ab", "s3://Bucket/x", "s3://bucket/a b", "s3://bucket/../x", "https://bucket/x",
        "s3://bucket/ä",
    ])
    func otherTextsAreRefused(_ text: String) { #expect(S3Address(text) == nil) }

    @Test func settingsComeFromTheEnvironment() throws {
        let settings = try S3Settings(environment: [
            "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu-central-1",
            "AWS_ENDPOINT_URL": "http://127.0.0.1:9000/",
        ])
        #expect(settings.region == "eu-central-1")
        #expect(settings.place(of: "bucket").origin == "http://127.0.0.1:9000")
        #expect(settings.place(of: "bucket").path == "/bucket")
    }

    @Test func amazonsBucketsAreInTheNameOfTheHost() {
        let settings = S3Settings(accessKey: "key", secretKey: "secret", region: "eu-central-1")
        #expect(settings.place(of: "bucket").origin == "https://bucket.s3.eu-central-1.amazonaws.com")
        #expect(settings.place(of: "my.bucket").origin == "https://s3.eu-central-1.amazonaws.com")
    }

    @Test(arguments: ["ftp://host", "http://host/path", "http://user@host", "host:9000", "http://host:99999"])
    func unusableEndpointsAreRefused(_ endpoint: String) {
        #expect(throws: S3Failure.self) {
            try S3Settings(environment: [
                "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ENDPOINT_URL": endpoint,
            ])
        }
    }

    @Test func missingKeysAreNamed() {
        #expect {
            try S3Settings(environment: ["AWS_ACCESS_KEY_ID": "key"])
        } throws: { "\($0)".contains("AWS_SECRET_ACCESS_KEY") }
    }
}

struct S3ListingTests {
    @Test func aPageIsRead() {
        let page = S3Listing(
            """
            <?xml version="1.0"?><ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>a/1</Key><Size>12</Size></Contents>\
            <Contents><Size>3</Size><Key>a/2</Key></Contents><NextContinuationToken>x&amp;y=</NextContinuationToken></ListBucketResult>
            """
        )
        #expect(page.objects.map(\.key) == ["a/1", "a/2"])
        #expect(page.objects.map(\.size) == [12, 3])
        #expect(page.next == "x&y=")
    }

    @Test func theLastPageHasNoNext() {
        #expect(S3Listing("<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>").next == nil)
    }
}
