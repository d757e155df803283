declare <8 x i32> @llvm.umin.v8i32(<8 x i32>, <8 x i32>)
declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare i32 @llvm.umin.i32(i32, i32)
declare float @llvm.fma.f32(float, float, float)
define void @jaxwarp_component_by_index(ptr %buffers, ptr %geometry, i64 %row_begin, i64 %row_end, i64 %col_begin, i64 %col_end) #0 {
entry:
  %last_chunk = sub i64 %col_end, 8
  %p0.at = getelementptr ptr, ptr %buffers, i64 0
  %p0 = load ptr, ptr %p0.at, align 8, !invariant.load !0
  %p1.at = getelementptr ptr, ptr %buffers, i64 1
  %p1 = load ptr, ptr %p1.at, align 8, !invariant.load !0
  %p2.at = getelementptr ptr, ptr %buffers, i64 2
  %p2 = load ptr, ptr %p2.at, align 8, !invariant.load !0
  %g0.at = getelementptr i64, ptr %geometry, i64 0
  %g0 = load i64, ptr %g0.at, align 8, !invariant.load !0
  %g1.at = getelementptr i64, ptr %geometry, i64 1
  %g1 = load i64, ptr %g1.at, align 8, !invariant.load !0
  %g2.at = getelementptr i64, ptr %geometry, i64 2
  %g2 = load i64, ptr %g2.at, align 8, !invariant.load !0
  %b0.0 = mul i64 4, %g0
  %b0.1 = mul i64 %b0.0, 4
  %b0 = add i64 0, %b0.1
  %b1.0 = mul i64 4, %g1
  %b1 = add i64 %b0, %b1.0
  %b2.0 = mul i64 8, %g2
  %b2.1 = mul i64 %b2.0, 4
  %b2 = add i64 %b1, %b2.1
  %streams = icmp ugt i64 %b2, 16777216
  %lines = select i1 %streams, i64 63, i64 -1
  %v1 = icmp slt i64 %row_begin, %row_end
  %v2 = icmp sle i64 %col_begin, %last_chunk
  br i1 %v1, label %row, label %end
row:
  br i1 %v2, label %full, label %rest
full:
  br label %chunk
chunk:
  %v3 = phi i64 [ %col_begin, %full ], [ %v82, %stored77 ]
  %v4 = trunc nuw nsw i64 %v3 to i32
  %v5 = mul i64 %v3, 4
  %v6 = getelementptr float, ptr %p0, i64 %v5
  %v7 = load <4 x float>, ptr %v6, align 4
  %v8 = getelementptr float, ptr %v6, i64 16
  %v9 = load <4 x float>, ptr %v8, align 4
  %v10 = shufflevector <4 x float> %v7, <4 x float> %v9, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v11 = getelementptr float, ptr %v6, i64 4
  %v12 = load <4 x float>, ptr %v11, align 4
  %v13 = getelementptr float, ptr %v6, i64 20
  %v14 = load <4 x float>, ptr %v13, align 4
  %v15 = shufflevector <4 x float> %v12, <4 x float> %v14, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v16 = shufflevector <8 x float> %v10, <8 x float> %v15, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v17 = getelementptr float, ptr %v6, i64 8
  %v18 = load <4 x float>, ptr %v17, align 4
  %v19 = getelementptr float, ptr %v6, i64 24
  %v20 = load <4 x float>, ptr %v19, align 4
  %v21 = shufflevector <4 x float> %v18, <4 x float> %v20, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v22 = getelementptr float, ptr %v6, i64 12
  %v23 = load <4 x float>, ptr %v22, align 4
  %v24 = getelementptr float, ptr %v6, i64 28
  %v25 = load <4 x float>, ptr %v24, align 4
  %v26 = shufflevector <4 x float> %v23, <4 x float> %v25, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v27 = shufflevector <8 x float> %v21, <8 x float> %v26, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v28 = shufflevector <8 x float> %v16, <8 x float> %v27, <8 x i32> <i32 0, i32 2, i32 8, i32 10, i32 4, i32 6, i32 12, i32 14>
  %v29 = shufflevector <8 x float> %v16, <8 x float> %v27, <8 x i32> <i32 1, i32 3, i32 9, i32 11, i32 5, i32 7, i32 13, i32 15>
  %v30 = shufflevector <8 x float> %v10, <8 x float> %v15, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v31 = shufflevector <8 x float> %v21, <8 x float> %v26, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v32 = shufflevector <8 x float> %v30, <8 x float> %v31, <8 x i32> <i32 0, i32 2, i32 8, i32 10, i32 4, i32 6, i32 12, i32 14>
  %v33 = shufflevector <8 x float> %v30, <8 x float> %v31, <8 x i32> <i32 1, i32 3, i32 9, i32 11, i32 5, i32 7, i32 13, i32 15>
  %v34 = getelementptr i32, ptr %p1, i64 %v3
  %v35 = load <8 x i32>, ptr %v34, align 4
  %v36 = add <8 x i32> %v35, splat (i32 4)
  %v37 = call <8 x i32> @llvm.umin.v8i32(<8 x i32> %v35, <8 x i32> %v36)
  %v38 = icmp eq <8 x i32> %v37, splat (i32 2)
  %v39 = select <8 x i1> %v38, <8 x float> %v32, <8 x float> %v33
  %v40 = icmp eq <8 x i32> %v37, splat (i32 1)
  %v41 = select <8 x i1> %v40, <8 x float> %v29, <8 x float> %v39
  %v42 = icmp eq <8 x i32> %v37, splat (i32 0)
  %v43 = select <8 x i1> %v42, <8 x float> %v28, <8 x float> %v41
  %v44 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v43, <8 x float> splat (float 0x4000000000000000), <8 x float> %v28)
  %v45 = select <8 x i1> %v42, <8 x float> %v44, <8 x float> %v28
  %v46 = select <8 x i1> %v40, <8 x float> %v44, <8 x float> %v29
  %v47 = select <8 x i1> %v38, <8 x float> %v44, <8 x float> %v32
  %v48 = icmp eq <8 x i32> %v37, splat (i32 3)
  %v49 = select <8 x i1> %v48, <8 x float> %v44, <8 x float> %v33
  %v50 = fadd <8 x float> %v49, splat (float 0x3FF0000000000000)
  %v51 = getelementptr float, ptr %p2, i64 %v5
  %v52 = shufflevector <8 x float> %v45, <8 x float> %v46, <8 x i32> <i32 0, i32 2, i32 8, i32 10, i32 4, i32 6, i32 12, i32 14>
  %v53 = shufflevector <8 x float> %v47, <8 x float> %v50, <8 x i32> <i32 0, i32 2, i32 8, i32 10, i32 4, i32 6, i32 12, i32 14>
  %v54 = shufflevector <8 x float> %v45, <8 x float> %v46, <8 x i32> <i32 1, i32 3, i32 9, i32 11, i32 5, i32 7, i32 13, i32 15>
  %v55 = shufflevector <8 x float> %v47, <8 x float> %v50, <8 x i32> <i32 1, i32 3, i32 9, i32 11, i32 5, i32 7, i32 13, i32 15>
  %v56 = shufflevector <8 x float> %v52, <8 x float> %v53, <8 x i32> <i32 0, i32 2, i32 8, i32 10, i32 4, i32 6, i32 12, i32 14>
  %v57 = shufflevector <8 x float> %v54, <8 x float> %v55, <8 x i32> <i32 0, i32 2, i32 8, i32 10, i32 4, i32 6, i32 12, i32 14>
  %v58 = shufflevector <8 x float> %v52, <8 x float> %v53, <8 x i32> <i32 1, i32 3, i32 9, i32 11, i32 5, i32 7, i32 13, i32 15>
  %v59 = shufflevector <8 x float> %v54, <8 x float> %v55, <8 x i32> <i32 1, i32 3, i32 9, i32 11, i32 5, i32 7, i32 13, i32 15>
  %v60 = shufflevector <8 x float> %v56, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v61 = getelementptr float, ptr %v51, i64 4
  %v62 = shufflevector <8 x float> %v57, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v63 = getelementptr float, ptr %v51, i64 8
  %v64 = shufflevector <8 x float> %v58, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v65 = getelementptr float, ptr %v51, i64 12
  %v66 = shufflevector <8 x float> %v59, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v67 = getelementptr float, ptr %v51, i64 16
  %v68 = shufflevector <8 x float> %v56, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v69 = getelementptr float, ptr %v51, i64 20
  %v70 = shufflevector <8 x float> %v57, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v71 = getelementptr float, ptr %v51, i64 24
  %v72 = shufflevector <8 x float> %v58, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v73 = getelementptr float, ptr %v51, i64 28
  %v74 = shufflevector <8 x float> %v59, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v78 = ptrtoint ptr %v51 to i64
  %v79 = and i64 %v78, %lines
  %v80 = icmp eq i64 %v79, 0
  br i1 %v80, label %stream75, label %cache76
stream75:
  store <4 x float> %v60, ptr %v51, align 16, !nontemporal !4
  store <4 x float> %v62, ptr %v61, align 16, !nontemporal !4
  store <4 x float> %v64, ptr %v63, align 16, !nontemporal !4
  store <4 x float> %v66, ptr %v65, align 16, !nontemporal !4
  store <4 x float> %v68, ptr %v67, align 16, !nontemporal !4
  store <4 x float> %v70, ptr %v69, align 16, !nontemporal !4
  store <4 x float> %v72, ptr %v71, align 16, !nontemporal !4
  store <4 x float> %v74, ptr %v73, align 16, !nontemporal !4
  br label %stored77
cache76:
  store <4 x float> %v60, ptr %v51, align 4
  store <4 x float> %v62, ptr %v61, align 4
  store <4 x float> %v64, ptr %v63, align 4
  store <4 x float> %v66, ptr %v65, align 4
  store <4 x float> %v68, ptr %v67, align 4
  store <4 x float> %v70, ptr %v69, align 4
  store <4 x float> %v72, ptr %v71, align 4
  store <4 x float> %v74, ptr %v73, align 4
  br label %stored77
stored77:
  %v81 = add i64 %v3, 8
  %v82 = call i64 asm "", "=r,0"(i64 %v81)
  %v83 = icmp sle i64 %v82, %last_chunk
  br i1 %v83, label %chunk, label %rest, !llvm.loop !1
rest:
  %v84 = phi i64 [ %col_begin, %row ], [ %v82, %stored77 ]
  %v85 = icmp slt i64 %v84, %col_end
  br i1 %v85, label %partial, label %past
partial:
  br label %part
part:
  %v86 = phi i64 [ %v84, %partial ], [ %v118, %part ]
  %v87 = trunc nuw nsw i64 %v86 to i32
  %v88 = mul i64 %v86, 4
  %v89 = getelementptr float, ptr %p0, i64 %v88
  %v90 = load float, ptr %v89, align 4
  %v91 = getelementptr float, ptr %v89, i64 1
  %v92 = load float, ptr %v91, align 4
  %v93 = getelementptr float, ptr %v89, i64 2
  %v94 = load float, ptr %v93, align 4
  %v95 = getelementptr float, ptr %v89, i64 3
  %v96 = load float, ptr %v95, align 4
  %v97 = getelementptr i32, ptr %p1, i64 %v86
  %v98 = load i32, ptr %v97, align 4
  %v99 = add i32 %v98, 4
  %v100 = call i32 @llvm.umin.i32(i32 %v98, i32 %v99)
  %v101 = icmp eq i32 %v100, 2
  %v102 = select i1 %v101, float %v94, float %v96
  %v103 = icmp eq i32 %v100, 1
  %v104 = select i1 %v103, float %v92, float %v102
  %v105 = icmp eq i32 %v100, 0
  %v106 = select i1 %v105, float %v90, float %v104
  %v107 = call float @llvm.fma.f32(float %v106, float 0x4000000000000000, float %v90)
  %v108 = select i1 %v105, float %v107, float %v90
  %v109 = select i1 %v103, float %v107, float %v92
  %v110 = select i1 %v101, float %v107, float %v94
  %v111 = icmp eq i32 %v100, 3
  %v112 = select i1 %v111, float %v107, float %v96
  %v113 = fadd float %v112, 0x3FF0000000000000
  %v114 = getelementptr float, ptr %p2, i64 %v88
  store float %v108, ptr %v114, align 4
  %v115 = getelementptr float, ptr %v114, i64 1
  store float %v109, ptr %v115, align 4
  %v116 = getelementptr float, ptr %v114, i64 2
  store float %v110, ptr %v116, align 4
  %v117 = getelementptr float, ptr %v114, i64 3
  store float %v113, ptr %v117, align 4
  %v118 = add i64 %v86, 1
  %v119 = icmp slt i64 %v118, %col_end
  br i1 %v119, label %part, label %parts_done, !llvm.loop !1
parts_done:
  br label %past
past:
  br label %end
end:
  br i1 %streams, label %fence, label %over
fence:
  fence seq_cst
  br label %over
over:
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
