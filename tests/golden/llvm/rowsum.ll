declare <32 x i32> @llvm.smax.v32i32(<32 x i32>, <32 x i32>)
declare i64 @llvm.smin.i64(i64, i64)
declare <32 x i32> @llvm.masked.load.v32i32.p0(ptr, i32, <32 x i1>, <32 x i32>)
declare <16 x i32> @llvm.smax.v16i32(<16 x i32>, <16 x i32>)
declare <8 x i32> @llvm.smax.v8i32(<8 x i32>, <8 x i32>)
declare <4 x i32> @llvm.smax.v4i32(<4 x i32>, <4 x i32>)
declare <2 x i32> @llvm.smax.v2i32(<2 x i32>, <2 x i32>)
declare i32 @llvm.smax.i32(i32, i32)
define void @jaxwarp_rowsum(ptr %buffers, ptr %geometry, i64 %row_begin, i64 %row_end, i64 %col_begin, i64 %col_end) #0 {
entry:
  %v1 = alloca <32 x i32>, align 16
  %v2 = alloca ptr, align 16
  %v3 = alloca <32 x i32>, align 16
  %v4 = alloca ptr, align 16
  %last_chunk = sub i64 %col_end, 32
  %g0.at = getelementptr i64, ptr %geometry, i64 0
  %g0 = load i64, ptr %g0.at, align 8, !invariant.load !0
  %p0.at = getelementptr ptr, ptr %buffers, i64 0
  %p0 = load ptr, ptr %p0.at, align 8, !invariant.load !0
  %p1.at = getelementptr ptr, ptr %buffers, i64 1
  %p1 = load ptr, ptr %p1.at, align 8, !invariant.load !0
  %p2.at = getelementptr ptr, ptr %buffers, i64 2
  %p2 = load ptr, ptr %p2.at, align 8, !invariant.load !0
  %g1.at = getelementptr i64, ptr %geometry, i64 1
  %g1 = load i64, ptr %g1.at, align 8, !invariant.load !0
  %whole.first = icmp eq i64 %col_begin, 0
  %whole.last = icmp eq i64 %col_end, %g1
  %whole = and i1 %whole.first, %whole.last
  %v7 = icmp sle i64 %col_begin, %last_chunk
  br label %rows
rows:
  %v5 = phi i64 [ %row_begin, %entry ], [ %v96, %gathered71 ]
  %v6 = icmp slt i64 %v5, %row_end
  br i1 %v6, label %row, label %end
row:
  %v9 = trunc nuw nsw i64 %v5 to i32
  %v11 = mul i64 %v5, %g0
  %v12 = getelementptr i32, ptr %p0, i64 %v11
  %v15 = getelementptr i32, ptr %p1, i64 %v5
  %v18 = getelementptr i32, ptr %p2, i64 %v5
  %v96 = add i64 %v5, 1
  store <32 x i32> splat (i32 0), ptr %v1
  store ptr null, ptr %v2
  store <32 x i32> splat (i32 -2147483648), ptr %v3
  store ptr null, ptr %v4
  br i1 %v7, label %full, label %rest
full:
  br label %chunk
chunk:
  %v8 = phi i64 [ %col_begin, %full ], [ %v22, %chunk ]
  %v10 = trunc nuw nsw i64 %v8 to i32
  %v13 = getelementptr i32, ptr %v12, i64 %v8
  %v14 = load <32 x i32>, ptr %v13, align 4
  %v16 = load <32 x i32>, ptr %v1
  %v17 = add <32 x i32> %v16, %v14
  store <32 x i32> %v17, ptr %v1
  store ptr %v15, ptr %v2
  %v19 = load <32 x i32>, ptr %v3
  %v20 = call <32 x i32> @llvm.smax.v32i32(<32 x i32> %v19, <32 x i32> %v14)
  store <32 x i32> %v20, ptr %v3
  store ptr %v18, ptr %v4
  %v21 = add i64 %v8, 32
  %v22 = call i64 asm "", "=r,0"(i64 %v21)
  %v23 = icmp sle i64 %v22, %last_chunk
  br i1 %v23, label %chunk, label %rest, !llvm.loop !1
rest:
  %v24 = phi i64 [ %col_begin, %row ], [ %v22, %chunk ]
  %v25 = icmp slt i64 %v24, %col_end
  br i1 %v25, label %partial, label %past
partial:
  %v26 = sub i64 %col_end, %v24
  %v27 = call i64 @llvm.smin.i64(i64 %v26, i64 32)
  %v28 = trunc i64 %v27 to i32
  %v29 = insertelement <32 x i32> poison, i32 %v28, i32 0
  %v30 = shufflevector <32 x i32> %v29, <32 x i32> poison, <32 x i32> zeroinitializer
  %v31 = icmp ult <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>, %v30
  %v32 = trunc nuw nsw i64 %v24 to i32
  %v33 = getelementptr i32, ptr %v12, i64 %v24
  %v34 = call <32 x i32> @llvm.masked.load.v32i32.p0(ptr %v33, i32 4, <32 x i1> %v31, <32 x i32> zeroinitializer)
  %v35 = freeze <32 x i32> %v34
  %v36 = select <32 x i1> %v31, <32 x i32> %v35, <32 x i32> splat (i32 0)
  %v37 = load <32 x i32>, ptr %v1
  %v38 = add <32 x i32> %v37, %v36
  store <32 x i32> %v38, ptr %v1
  store ptr %v15, ptr %v2
  %v39 = select <32 x i1> %v31, <32 x i32> %v35, <32 x i32> splat (i32 -2147483648)
  %v40 = load <32 x i32>, ptr %v3
  %v41 = call <32 x i32> @llvm.smax.v32i32(<32 x i32> %v40, <32 x i32> %v39)
  store <32 x i32> %v41, ptr %v3
  store ptr %v18, ptr %v4
  br label %past
past:
  %v42 = load ptr, ptr %v2
  %v45 = icmp eq ptr %v42, null
  br i1 %v45, label %gathered44, label %reached43
reached43:
  %v46 = load <32 x i32>, ptr %v1
  %v47 = shufflevector <32 x i32> %v46, <32 x i32> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v48 = shufflevector <32 x i32> %v46, <32 x i32> poison, <16 x i32> <i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %v49 = add <16 x i32> %v47, %v48
  %v50 = shufflevector <16 x i32> %v49, <16 x i32> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v51 = shufflevector <16 x i32> %v49, <16 x i32> poison, <8 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v52 = add <8 x i32> %v50, %v51
  %v53 = shufflevector <8 x i32> %v52, <8 x i32> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v54 = shufflevector <8 x i32> %v52, <8 x i32> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v55 = add <4 x i32> %v53, %v54
  %v56 = shufflevector <4 x i32> %v55, <4 x i32> poison, <2 x i32> <i32 0, i32 1>
  %v57 = shufflevector <4 x i32> %v55, <4 x i32> poison, <2 x i32> <i32 2, i32 3>
  %v58 = add <2 x i32> %v56, %v57
  %v59 = shufflevector <2 x i32> %v58, <2 x i32> poison, <1 x i32> <i32 0>
  %v60 = shufflevector <2 x i32> %v58, <2 x i32> poison, <1 x i32> <i32 1>
  %v61 = extractelement <1 x i32> %v59, i32 0
  %v62 = extractelement <1 x i32> %v60, i32 0
  %v63 = add i32 %v61, %v62
  br i1 %whole, label %alone64, label %shared65
alone64:
  %v66 = load i32, ptr %v42, align 4
  %v67 = add i32 %v66, %v63
  store i32 %v67, ptr %v42, align 4
  br label %gathered44
shared65:
  %v68 = atomicrmw add ptr %v42, i32 %v63 monotonic, align 4
  br label %gathered44
gathered44:
  %v69 = load ptr, ptr %v4
  %v72 = icmp eq ptr %v69, null
  br i1 %v72, label %gathered71, label %reached70
reached70:
  %v73 = load <32 x i32>, ptr %v3
  %v74 = shufflevector <32 x i32> %v73, <32 x i32> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v75 = shufflevector <32 x i32> %v73, <32 x i32> poison, <16 x i32> <i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %v76 = call <16 x i32> @llvm.smax.v16i32(<16 x i32> %v74, <16 x i32> %v75)
  %v77 = shufflevector <16 x i32> %v76, <16 x i32> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v78 = shufflevector <16 x i32> %v76, <16 x i32> poison, <8 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v79 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %v77, <8 x i32> %v78)
  %v80 = shufflevector <8 x i32> %v79, <8 x i32> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v81 = shufflevector <8 x i32> %v79, <8 x i32> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v82 = call <4 x i32> @llvm.smax.v4i32(<4 x i32> %v80, <4 x i32> %v81)
  %v83 = shufflevector <4 x i32> %v82, <4 x i32> poison, <2 x i32> <i32 0, i32 1>
  %v84 = shufflevector <4 x i32> %v82, <4 x i32> poison, <2 x i32> <i32 2, i32 3>
  %v85 = call <2 x i32> @llvm.smax.v2i32(<2 x i32> %v83, <2 x i32> %v84)
  %v86 = shufflevector <2 x i32> %v85, <2 x i32> poison, <1 x i32> <i32 0>
  %v87 = shufflevector <2 x i32> %v85, <2 x i32> poison, <1 x i32> <i32 1>
  %v88 = extractelement <1 x i32> %v86, i32 0
  %v89 = extractelement <1 x i32> %v87, i32 0
  %v90 = call i32 @llvm.smax.i32(i32 %v88, i32 %v89)
  br i1 %whole, label %alone91, label %shared92
alone91:
  %v93 = load i32, ptr %v69, align 4
  %v94 = call i32 @llvm.smax.i32(i32 %v93, i32 %v90)
  store i32 %v94, ptr %v69, align 4
  br label %gathered71
shared92:
  %v95 = atomicrmw max ptr %v69, i32 %v90 monotonic, align 4
  br label %gathered71
gathered71:
  br label %rows, !llvm.loop !1
end:
  ret void
}
attributes #0 = { nounwind alignstack=64 }
attributes #1 = { nobuiltin nounwind willreturn memory(none) }
attributes #2 = { nounwind willreturn }
attributes #3 = { noinline cold nounwind willreturn memory(none) }

!0 = !{}
!1 = distinct !{!1, !2}
!2 = !{!"llvm.loop.unroll.disable"}
!3 = !{!"branch_weights", i32 1, i32 2000}
!4 = !{i32 1}
!5 = distinct !{!5, !6}
!6 = !{!"llvm.loop.unroll.runtime.disable"}
