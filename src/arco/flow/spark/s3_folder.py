"""Folders on S3, of which there are none: Spark leaves an empty object behind that stands for one.

Nobody needs it, and Arco could not collect it later: to whoever lists a bucket by folders, it has no name.
"""

from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from arco.flow.spark.jvm import java_of, jvm_of

_FILES_ON_S3 = "S3AFileSystem"


def forget_folder(session: SparkSession, place: str) -> None:
    """Delete the object that stands for a folder, where the place is on S3."""
    jvm, parts = jvm_of(session), urlsplit(place)
    path = jvm.org.apache.hadoop.fs.Path(place)
    files = path.getFileSystem(java_of(session).sessionState().newHadoopConf())
    if str(files.getClass().getSimpleName()) != _FILES_ON_S3:
        return
    gone = jvm.software.amazon.awssdk.services.s3.model.DeleteObjectRequest.builder()
    gone = gone.bucket(parts.netloc).key(f"{parts.path.strip('/')}/").build()
    files.getS3AInternals().getAmazonS3Client("arco").deleteObject(gone)
